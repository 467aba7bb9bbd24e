"""Compare what the provider answers with what was asked, before it is believed.

An answer may be about another payment: a key that a second shop on the same account has used, an
error of an adapter, a wrong amount or currency. Such an answer never makes an order paid. It is
recorded as a discrepancy, which the audit reports until an operator has closed it.
"""

from __future__ import annotations

import logging

from shop.money import plain
from shop.payments.models import Discrepancy, Payment, Refund
from shop.payments.provider import Intent, ProviderRefund, from_provider, to_provider

log = logging.getLogger(__name__)

Kind = Discrepancy.Kind


def report(payment: Payment, kind: Kind, number: str, text: str) -> bool:
    """Record a discrepancy of a payment, once while it is open.

    Args:
        payment: what it is about.
        kind: what kind it is.
        number: the provider's id of the payment, refund or dispute.
        text: a sentence for the operator, which begins with the payment.

    Returns:
        Whether it is a new one.
    """
    log.error(text, extra={"order": payment.order_id})
    _, is_new = Discrepancy.objects.get_or_create(
        payment=payment, kind=kind, number=number, closed=None, defaults={"text": text}
    )
    return is_new


def is_of_payment(intent: Intent, payment: Payment) -> bool:
    """Return whether the provider's payment is the one that was asked for; report it if not.

    The order, the amount, the currency and the reference, if the provider keeps one, must be those
    that were sent.
    """
    currency = payment.order.currency
    wanted = (payment.order_id, to_provider(payment.amount, currency), currency)
    answered = (intent.order, intent.amount, intent.currency)
    if wanted == answered and intent.reference in {"", payment.key}:
        return True
    amount = plain(from_provider(intent.amount, intent.currency), intent.currency)
    text = (
        f"payment {payment.pk} of order {payment.order_id}, {plain(payment.amount, currency)}: "
        f"the provider answers with {intent.id} of order {intent.order}, {amount}, "
        f"reference {intent.reference or 'unknown'}"
    )
    report(payment, Kind.MISMATCH, intent.id, text)
    return False


def is_of_refund(answer: ProviderRefund, refund: Refund) -> bool:
    """Return whether the provider's refund is the one that was asked for; report it if not."""
    payment = refund.payment
    currency = payment.order.currency
    wanted = (payment.intent, to_provider(refund.amount, currency))
    if wanted == (answer.intent, answer.amount) and answer.currency in {"", currency}:
        return True
    stated = answer.currency or currency
    text = (
        f"payment {payment.pk} of order {payment.order_id}: its refund {refund.pk} is over "
        f"{plain(refund.amount, currency)}; the provider answers with {answer.id} of "
        f"{answer.intent}, {plain(from_provider(answer.amount, stated), stated)}"
    )
    report(payment, Kind.MISMATCH, answer.id, text)
    return False
