"""Tell the shop's payments from others at the provider: by the keys that it sends, and by comparing
what is answered with what was asked.

**Keys.** Each names the database (`shop.identity`), the order and the time of its creation, and
what is asked: `order-<identity>-<id>-<created>-1` is the first attempt to pay. So it differs from
every key of another database on the same account at the provider, also of one made from a copy of
this one. A key is stored when its operation begins, and only read after that: what was begun under
a key of an older form, or under an earlier identity, is repeated under that key.

**Answers.** An answer may be about another payment: a key that a second shop on the same account
has used, an error of an adapter, a wrong amount or currency. Such an answer never makes an order
paid. It is recorded as a discrepancy, which the audit reports until an operator has closed it.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta

from shop.identity import Identity, identity
from shop.money import plain
from shop.orders.models import Order
from shop.payments.models import Discrepancy, Payment, Refund
from shop.payments.provider import Intent, ProviderRefund, from_provider, to_provider

log = logging.getLogger(__name__)

Kind = Discrepancy.Kind

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
