"""The states of an order, and the steps between them.

    awaiting_payment ─→ paid ─→ fulfilled
        │  │              └──→ refund_pending ─→ refunded
        │  └──→ expired ─→ paid     (paid late, with units still left)
        └─────→ cancelled

This module alone defines them, without HTTP or SQL; `shop/orders/transitions.py` takes the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices


class Status(TextChoices):
    """The state of an order; only guarded updates change it."""

    AWAITING_PAYMENT = "awaiting_payment", "awaiting payment"
    PAID = "paid", "paid"
    FULFILLED = "fulfilled", "fulfilled"
    EXPIRED = "expired", "expired"
    CANCELLED = "cancelled", "cancelled"
    REFUND_PENDING = "refund_pending", "refund pending"
    REFUNDED = "refunded", "refunded"


@dataclass(frozen=True, slots=True)
class Step:
    """A step from one state to another.

    Attributes:
        event: its name in the order's timeline and the outbox.
        before: the required state.
        after: the new state.
    """

    event: str
    before: Status
    after: Status


PAY = Step("paid", Status.AWAITING_PAYMENT, Status.PAID)
PAY_LATE = Step("paid_late", Status.EXPIRED, Status.PAID)
FULFIL = Step("fulfilled", Status.PAID, Status.FULFILLED)
EXPIRE = Step("expired", Status.AWAITING_PAYMENT, Status.EXPIRED)
CANCEL = Step("cancelled", Status.AWAITING_PAYMENT, Status.CANCELLED)
RETURN = Step("returned", Status.PAID, Status.REFUND_PENDING)
REFUND = Step("refunded", Status.REFUND_PENDING, Status.REFUNDED)

STEPS = (PAY, PAY_LATE, FULFIL, EXPIRE, CANCEL, RETURN, REFUND)
"""All steps."""
