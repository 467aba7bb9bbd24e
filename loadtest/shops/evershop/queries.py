"""What EverShop is asked: the bodies of its calls, and the SQL of its books."""

from __future__ import annotations

import uuid
from typing import Any

GUESTS = uuid.UUID("6f1c7a52-0d3a-4b1e-9a54-53cf1a8c1e10")
ADMIN = {"email": "admin@example.com", "password": "flash-sale-proof"}
PRODUCT: dict[str, Any] = {
    "name": "Flash sale",
    "price": "9.99",
    "weight": 0,
    "group_id": 1,
    "status": 1,
    "visibility": 1,
    "manage_stock": 1,
    "stock_availability": 1,
    "no_shipping_required": True,
}
ADDRESS = {
    "full_name": "A B",
    "telephone": "5551234",
    "address_1": "1 Road",
    "city": "Austin",
    "country": "US",
    "province": "US-TX",
    "postcode": "73301",
}
STEPS = {
    "addresses": {"type": "billing", "address": ADDRESS},
    "paymentMethods": {"method_code": "cod", "method_name": "Cash on Delivery"},
}
REFUSED = "Order validation failed"
SOLD = """SELECT order_item_order_id::text, sum(qty) FROM order_item WHERE product_sku = %s
GROUP BY 1"""
LEFT = """SELECT qty FROM product_inventory JOIN product
ON product_id = product_inventory_product_id WHERE sku = %s"""
