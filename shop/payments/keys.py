"""Idempotency keys, which the provider sees.

Each names the database (`shop.identity`), the order and the time of its creation, and what is
asked: `order-<identity>-<id>-<created>-1` is the first attempt to pay. So it differs from every key
of another database on the same account at the provider, also of one made from a copy of this one.

A key is stored when its operation begins, and only read after that: what was begun under a key of
an older form, or under an earlier identity, is repeated under that key.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from shop.identity import Identity, identity
from shop.orders.models import Order

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FORM = re.compile(r"order-([0-9a-f]{16})-\d+-[0-9a-f]+-\d+")


def key_of(order: Order, purpose: str) -> str:
    """Return the key of an operation on an order; the same one however often it is asked for.

    Args:
        order: the order, read from the database.
        purpose: what distinguishes the operation from the order's others, such as `1` for the
            first attempt to pay.
    """
    created = (order.created - EPOCH) // timedelta(microseconds=1)
    return f"order-{identity()}-{order.pk}-{created:x}-{purpose}"


def is_foreign(reference: str) -> bool:
    """Return whether a payment's reference is certainly that of another database of this shop.

    Others say nothing: the payment may be older than identities, or the provider keeps no
    reference.
    """
    match = FORM.fullmatch(reference)
    return match is not None and not Identity.objects.filter(value=match[1]).exists()
