"""Apply the provider's events to orders. Each may come twice, late and in any order.

An event of an unknown payment or refund raises `NotYet`.
"""

from __future__ import annotations

from django.db.models.functions import Now

from shop.orders.models import OrderEvent
from shop.orders.transitions import note
from shop.payments import settlement
from shop.payments.models import Payment, Refund
from shop.payments.provider import Intent, ProviderRefund


class NotYet(Exception):
    """The event's record does not exist here yet; the provider must send it again."""


def captured(intent: Intent) -> None:
    """Record a capture. Runs in the transaction that marks the event as processed."""
    payment = _payment(intent)
    # Including payments recorded as failed: captured money is never overlooked.
    missed = Payment.objects.filter(pk=payment.pk).exclude(state=Payment.State.CAPTURED)
    if missed.update(state=Payment.State.CAPTURED, settled=Now()):
        settlement.accept(payment)


def failed(intent: Intent) -> None:
    """Record that a payment failed or was cancelled; nothing was taken."""
    declined(_payment(intent))


def declined(payment: Payment) -> None:
    """Record that the provider refused a payment; nothing was taken."""
    pending = Payment.objects.filter(pk=payment.pk, state=Payment.State.PENDING)
    if pending.update(state=Payment.State.FAILED, settled=Now()):
        note(payment.order_id, OrderEvent.Kind.PAYMENT_FAILED, amount=payment.amount)


def refunded(refund: ProviderRefund) -> None:
    """Record that a refund succeeded or failed."""
    try:
        ours = Refund.objects.select_related("payment").get(number=refund.id)
    except Refund.DoesNotExist:
        raise NotYet(refund.id) from None
    if refund.status == "succeeded":
        settlement.arrived(ours)
    elif refund.status == "failed":
        settlement.bounced(ours)


def _payment(intent: Intent) -> Payment:
    try:
        return Payment.objects.get(intent=intent.id)
    except Payment.DoesNotExist:
        raise NotYet(intent.id) from None
