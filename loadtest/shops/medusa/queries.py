"""What Medusa is asked: the bodies of its calls, and the SQL of its books."""

from __future__ import annotations

from typing import Any

ADMIN = {"email": "admin@example.com", "password": "flash-sale-proof"}
CART = {
    "email": "buyer@example.com",
    "shipping_address": {
        "first_name": "A",
        "last_name": "B",
        "address_1": "1 Road",
        "city": "London",
        "country_code": "gb",
        "postal_code": "N1 1AA",
    },
}
PAYMENT = {"provider_id": "pp_system_default"}
REFUSED = "Not enough stock available"
SEEDED = """SELECT k.token, c.id, l.id FROM api_key k, sales_channel c, stock_location l
WHERE k.type = 'publishable'"""
SOLD = """SELECT i.order_id, sum(i.quantity) FROM order_item i JOIN "order" o ON o.id = i.order_id
JOIN order_line_item l ON l.id = i.item_id WHERE l.variant_id = %s AND o.status <> 'canceled'
AND o.deleted_at IS NULL AND i.deleted_at IS NULL GROUP BY i.order_id"""
STOCK = """SELECT stocked_quantity, stocked_quantity - reserved_quantity FROM inventory_level l
JOIN product_variant_inventory_item p ON p.inventory_item_id = l.inventory_item_id
WHERE variant_id = %s AND l.deleted_at IS NULL AND p.deleted_at IS NULL"""


def item(sku: str, place: str, units: int) -> dict[str, Any]:
    """Return a ticket, as the inventory counts it."""
    level = {"location_id": place, "stocked_quantity": units}
    return {"sku": sku, "requires_shipping": False, "location_levels": [level]}


def product(sku: str, channel: str, item: str) -> dict[str, Any]:
    """Return a product of one variant."""
    part = {"inventory_item_id": item, "required_quantity": 1}
    stock = {"manage_inventory": True, "inventory_items": [part]}
    prices = [{"currency_code": "gbp", "amount": 9.99}]
    return {
        "title": "Flash sale",
        "handle": sku,
        "status": "published",
        "options": [{"title": "Size", "values": ["One"]}],
        "variants": [{"title": "One", "options": {"Size": "One"}, "prices": prices, **stock}],
        "sales_channels": [{"id": channel}],
    }
