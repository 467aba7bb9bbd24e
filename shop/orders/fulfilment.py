"""Hand over paid orders."""

from __future__ import annotations

from django.db import transaction

from shop.orders import states
from shop.orders.models import Order
from shop.orders.transitions import WrongState, take


def fulfil(order: Order) -> Order:
    """Mark a paid order as handed over. Repeating it changes nothing.

    Raises:
        WrongState: it is not paid.
    """
    try:
        with transaction.atomic():
            take(states.FULFIL, [order.pk])
    except WrongState as wrong:
        if wrong.status != Order.Status.FULFILLED:
            raise
    order.refresh_from_db()
    return order
