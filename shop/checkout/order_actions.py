"""Change an order: from a parsed request to the changed order or a refusal.

Used by the API and the pages' forms. Every function raises `Refusal` with its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shop import orders, payments
from shop.orders import Part
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown
from shop.refusals import Refusal


def pay(order: Order) -> Order:
    """Pay an order."""
    with _refusing():
        return payments.pay(order)


def cancel(order: Order, part: Part | None = None) -> Order:
    """Cancel an unpaid order or a part of it."""
    with _refusing():
        return orders.cancel(order, part)


def refund(order: Order, part: Part | None = None) -> Order:
    """Refund a paid order or a part of it."""
    with _refusing():
        return payments.refund(order, part)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except orders.WrongState as wrong:
        raise Refusal(f"order_{wrong.status}") from None
    except payments.PaymentFailed:
        raise Refusal("payment_declined") from None
    except orders.NoSuchPart:
        raise Refusal("invalid_quantity") from None
    except orders.PartKeyReused:
        raise Refusal("idempotency_key_reused") from None
    except PaymentUnknown as error:
        raise Refusal("outcome_unknown") from error
