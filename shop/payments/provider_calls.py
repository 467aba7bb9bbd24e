"""Call the provider, and record its answers.

Never inside a transaction: while a provider takes its time, nobody waits for a row of ours. The
question was written down before (see `shop/payments/models.py`), so that a crash between any two
lines here leaves something that can be asked again, under the same key.
"""

from __future__ import annotations

from django.db import transaction

from shop.payments import provider_events, settlement
from shop.payments.models import Payment, Refund
from shop.payments.provider import Intent, PaymentDeclined, PaymentUnknown, provider


def advance(payment: Payment) -> None:
    """Go on with a payment while its order can be paid; otherwise see that nothing is taken.

    Raises:
        PaymentUnknown: no definite answer came.
    """
    (charge if settlement.payable(payment.order_id) else give_up)(payment)


def charge(payment: Payment) -> None:
    """Take the money, or find out what became of an earlier try.

    Raises:
        PaymentUnknown: no definite answer came.
    """
    try:
        intent = _intent(payment)
    except PaymentDeclined:
        record_failure(payment)
        return
    if intent.status == "requires_capture":
        try:
            intent = provider().capture(intent.id, key=f"{payment.key}-capture")
        except PaymentDeclined:
            # Refused, or refused because another came first: what happened to it says which.
            intent = _look(payment)
            if intent.status == "requires_capture":
                record_failure(payment)
                return
    record(intent)


def give_up(payment: Payment) -> None:
    """Make sure that nothing is taken any more, or find out that it was.

    Raises:
        PaymentUnknown: no definite answer came.
    """
    try:
        intent = _intent(payment)
    except PaymentDeclined:
        record_failure(payment)
        return
    if intent.status == "requires_capture":
        try:
            intent = provider().cancel(intent.id, key=f"{payment.key}-cancel")
        except PaymentDeclined:
            # A capture that was under way came first.
            intent = _look(payment)
    record(intent)


def give_back(refund: Refund) -> None:
    """Give money back, or find out what became of an earlier try.

    Raises:
        PaymentUnknown: no definite answer came.
    """
    payment = refund.payment
    try:
        answer = provider().refund(payment.intent, amount=refund.amount, key=refund.provider_key)
    except PaymentDeclined:
        with transaction.atomic():
            provider_events.bounced(refund)
        return
    Refund.objects.filter(pk=refund.pk, number="").update(number=answer.id)
    with transaction.atomic():
        provider_events.refunded(answer)
    if answer.status == "pending" and refund.number:
        _look_for(refund)


def _look_for(refund: Refund) -> None:
    """Its news may be lost, and its key gets the first answer; what is back in all is known."""
    payment = Payment.objects.get(pk=refund.payment_id)
    if _look(payment).refunded == payment.owed_back:
        with transaction.atomic():
            settlement.arrived(refund)


def record(intent: Intent) -> None:
    """Record what the provider says about a payment."""
    with transaction.atomic():
        if intent.status == "captured":
            provider_events.captured(intent)
        elif intent.status in {"failed", "cancelled"}:
            provider_events.failed(intent)


def record_failure(payment: Payment) -> None:
    """Record that the provider refused a payment."""
    with transaction.atomic():
        provider_events.declined(payment)


def _intent(payment: Payment) -> Intent:
    """The payment as the provider knows it, made known to it if need be."""
    if payment.intent:
        return _look(payment)
    intent = provider().create_intent(
        order=payment.order_id,
        amount=payment.amount,
        currency=payment.order.currency,
        key=payment.key,
    )
    Payment.objects.filter(pk=payment.pk, intent="").update(intent=intent.id)
    payment.intent = intent.id
    return intent


def _look(payment: Payment) -> Intent:
    # A repeated key is answered with what was said first; this says how it stands now.
    for intent in provider().find(payment.order_id):
        if intent.id == payment.intent:
            return intent
    raise PaymentUnknown(f"the provider has lost {payment.intent}")
