"""How far the payment of an order has come, as buyers see it next to the order's status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from shop.orders.models import Order
from shop.payments.models import Payment

State = Literal["none", "action", "processing", "failed"]
STATES: tuple[State, ...] = ("none", "action", "processing", "failed")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a payment has come.

    Attributes:
        state: `none` if there is none, or the order awaits none any more; `action` if the buyer has
            something to do; `processing` at the provider; `failed` if the last attempt did, and
            another is possible.
        action: what the buyer has to do, with `kind`, `url`, `data` or `client_secret`, and
            `expires`; only for `action`.
        payment: id of the latest payment; 0 if there is none.
    """

    state: State
    action: dict[str, Any] | None = None
    payment: int = 0


NONE = Progress("none")


def progress(order: Order) -> Progress:
    """Return how far the payment of an order has come; a query, if the order awaits one."""
    if order.status != Order.Status.AWAITING_PAYMENT:
        return NONE
    payment = Payment.objects.filter(order=order.pk).order_by("-pk").first()
    if payment is None:
        return NONE
    if payment.state == Payment.State.FAILED:
        return Progress("failed", payment=payment.pk)
    if payment.waits_for_buyer:
        return Progress("action", payment.action, payment.pk)
    return Progress("processing", payment=payment.pk)
