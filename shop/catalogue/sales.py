"""Create sales, and read them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Case, Exists, OuterRef, Value, When

from inventory import services
from inventory.models import Reservation
from shop.catalogue.models import Product, Sale
from shop.money import default_currency

PHONE = {
    "slug": "phone",
    "name": "Phone",
    "description": "The classic of every sale: list price 1999, on sale at 999.",
    "list_price": 199_900,
}
"""The default product."""


def open_sale(
    *,
    stock: int,
    price: int,
    limit: int,
    currency: str | None = None,
    product: Product | None = None,
    starts_in: timedelta = timedelta(0),
    lasts: timedelta = timedelta(days=1),
    hold: timedelta = timedelta(minutes=15),
    action_hold: timedelta = timedelta(minutes=10),
    restock_cancelled: bool = True,
    restock_returned: bool = True,
    listed: bool = True,
) -> Sale:
    """Create a sale with an item of its own.

    Args:
        stock: units.
        price: of one unit, in minor units.
        limit: units per buyer.
        currency: ISO 4217 code; the shop's own if None.
        product: the product; the phone if None.
        starts_in: from now, by the database's clock.
        lasts: duration from the start.
        hold: time to pay.
        action_hold: time for the buyer's part of a payment, from its beginning.
        restock_cancelled: whether units of cancelled orders are sold again.
        restock_returned: whether units of returned orders are sold again.
        listed: whether the home page shows it.

    Raises:
        ValidationError: an argument is invalid; nothing was created.
    """
    with transaction.atomic():
        if product is None:
            slug = PHONE["slug"]
            product, _ = Product.objects.get_or_create(slug=slug, defaults=PHONE)
        starts_at = database_time() + starts_in
        sale = Sale(
            product=product,
            item=services.stock(product.name, stock),
            price=price,
            currency=currency or default_currency(),
            limit=limit,
            starts_at=starts_at,
            ends_at=starts_at + lasts,
            hold=hold,
            action_hold=action_hold,
            restock_cancelled=restock_cancelled,
            restock_returned=restock_returned,
            listed=listed,
        )
        sale.full_clean()
        sale.save()
    return sale


def held() -> Case:
    """Return an expression: is a sale's item sold out, and are some of its units unpaid?

    Unpaid units may become available again. They are only looked for where none are left.
    """
    unpaid = Reservation.objects.filter(item=OuterRef("item"), state=Reservation.State.HELD)
    return Case(When(item__available=0, then=Exists(unpaid)), default=Value(False))


def database_time() -> datetime:
    """Return the database's time, which decides on windows and deadlines."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        now: datetime = cursor.fetchone()[0]
    return now
