"""Repeat unanswered calls to the provider until each has an answer.

A crash, a timeout or a lost webhook leaves a pending row. A sweep claims each row by moving the
time of its next look, in a transaction of its own, and then calls the provider without any lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from inventory import outbox
from shop.orders.models import Order
from shop.payments import paying, refunding
from shop.payments.models import Payment, Refund
from shop.payments.provider import PaymentUnknown

log = logging.getLogger(__name__)

FIRST_PAUSE = timedelta(seconds=5)
"""A call without an answer is repeated after 5 s, 10 s, 20 s …, bounded like the outbox's."""

Row = TypeVar("Row", Payment, Refund)


def settle(*, limit: int = 100) -> int:
    """Ask the provider about due pending operations; return how many.

    Args:
        limit: maximum number of payments, and of refunds.
    """
    # The first look at a payment of an ended order is due at once: nothing may be taken any more.
    over = ~Q(order__status=Order.Status.AWAITING_PAYMENT)
    over &= Q(attempts=0) | Q(waits_for_buyer=True)
    asked = _each(Payment, Q(not_before__lte=Now()) | over, paying.advance, limit)
    return asked + _each(Refund, Q(not_before__lte=Now()), refunding.pay_out, limit)


def _each(kind: type[Row], due: Q, ask: Callable[[Row], None], limit: int) -> int:
    for count in range(limit):
        row = _next(kind, due)
        if row is None:
            return count
        try:
            ask(row)
        except PaymentUnknown as error:
            message = "%s: the provider gives no answer (%s); will ask again"
            log.warning(message, row, error, extra={"order": _order(row)})
        except Exception:
            # A row that cannot be settled must not block the others.
            message = "%s could not be settled; will try again"
            log.exception(message, row, extra={"order": _order(row)})
    return limit


def _order(row: Payment | Refund) -> int:
    return row.order_id if isinstance(row, Payment) else row.payment.order_id


def _next(kind: type[Row], due: Q) -> Row | None:
    """Claim the next due row by putting off its next look."""
    with transaction.atomic():
        pending = kind.objects.filter(due, state=kind.State.PENDING)
        # SKIP LOCKED: do not wait for rows of another sweep or a request.
        locked = pending.select_for_update(skip_locked=True, of=("self",), no_key=True)
        row = locked.order_by("not_before").first()
        if row is not None:
            pause = outbox.pause_after(row.attempts + 1, FIRST_PAUSE)
            kind.objects.filter(pk=row.pk).update(
                attempts=F("attempts") + 1, not_before=Now() + pause
            )
            row.attempts += 1
    return row
