"""Call the provider and record its answers.

Calls are made outside transactions and without a connection, so that no row is locked and no other
request waits while the provider answers. Each call was recorded before (see
`shop/payments/models.py`): after a crash at any point, it can be repeated under the same key. All
but the two `record` functions raise `PaymentUnknown` if no definite answer comes.
"""

from __future__ import annotations

from django.db import transaction

from inventory.postgresql.base import lend_connections
from shop.payments import settlement
from shop.payments.models import Payment, Refund
from shop.payments.provider import (
    Intent,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    provider,
)


def ask_provider() -> Provider:
    """Return the provider for one call, without this thread's database connection.

    The answer may take seconds, in which other requests need the connection.
    """
    lend_connections()
    return provider()


def advance(payment: Payment) -> None:
    """Charge a payment while its order can be paid; otherwise make sure that nothing is taken."""
    (charge if settlement.payable(payment.order_id) else give_up)(payment)


def charge(payment: Payment) -> None:
    """Take the money, or get the result of an earlier attempt."""
    try:
        intent = _intent(payment)
    except PaymentDeclined:
        record_failure(payment)
        return
    if intent.status == "requires_capture":
        try:
            intent = ask_provider().capture(intent.id, key=f"{payment.key}-capture")
        except PaymentDeclined:
            # Refused, or an earlier call was first: the payment's state says which.
            intent = _look(payment)
            if intent.status == "requires_capture":
                record_failure(payment)
                return
    record(intent)


def give_up(payment: Payment) -> None:
    """Make sure that nothing will be taken, or find that it was."""
    try:
        intent = _intent(payment)
    except PaymentDeclined:
        record_failure(payment)
        return
    if intent.status == "requires_capture":
        try:
            intent = ask_provider().cancel(intent.id, key=f"{payment.key}-cancel")
        except PaymentDeclined:
            # A concurrent capture was first.
            intent = _look(payment)
    record(intent)


def give_back(refund: Refund) -> None:
    """Refund money, or get the result of an earlier attempt."""
    payment = refund.payment
    try:
        answer = ask_provider().refund(
            payment.intent, amount=refund.amount, key=refund.provider_key
        )
    except PaymentDeclined:
        with transaction.atomic():
            settlement.bounced(refund)
        return
    Refund.objects.filter(pk=refund.pk, number="").update(number=answer.id)
    with transaction.atomic():
        settlement.refunded(answer)
    if answer.status == "pending" and refund.number:
        _look_for(refund)


def _look_for(refund: Refund) -> None:
    """Settle a refund by the total refunded: its webhook may be lost, and its key repeats the
    first answer.
    """
    payment = Payment.objects.get(pk=refund.payment_id)
    if _look(payment).refunded == payment.owed_back:
        with transaction.atomic():
            settlement.arrived(refund)


def record(intent: Intent) -> None:
    """Record the provider's state of a payment."""
    with transaction.atomic():
        if intent.status == "captured":
            settlement.captured(intent)
        elif intent.status in {"failed", "cancelled"}:
            settlement.failed(intent)


def record_failure(payment: Payment) -> None:
    """Record that the provider refused a payment."""
    with transaction.atomic():
        settlement.declined(payment)


def _intent(payment: Payment) -> Intent:
    """Return the provider's payment; create it there first if necessary."""
    if payment.intent:
        return _look(payment)
    order = payment.order  # read before the call, which has no connection
    intent = ask_provider().create_intent(
        order=order.pk,
        amount=payment.amount,
        currency=order.currency,
        key=payment.key,
    )
    Payment.objects.filter(pk=payment.pk, intent="").update(intent=intent.id)
    payment.intent = intent.id
    return intent


def _look(payment: Payment) -> Intent:
    # A repeated key gets the first answer; this gets the current state.
    for intent in ask_provider().find(payment.order_id):
        if intent.id == payment.intent:
            return intent
    raise PaymentUnknown(f"the provider has lost {payment.intent}")
