"""Return paid orders: the units go back at once, the money when the provider confirms.

A return is a guarded step that records a refund in the same transaction, under a key derived from
the order: repeated requests find that one refund and get its answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from inventory.models import Reservation
from inventory.services import Released
from shop.catalogue.models import Sale
from shop.orders.models import Order, OrderEvent
from shop.orders.parts import GivingBack, Part, give_back
from shop.orders.totals import fees_given_back
from shop.orders.transitions import ORDER_LOCK, Step, refresh, take
from shop.payments import settlement
from shop.payments.identification import is_of_refund, key_of
from shop.payments.models import Payment, Refund
from shop.payments.paying import prepare_to_ask
from shop.payments.provider import (
    PaymentDeclined,
    PaymentUnknown,
    ProviderRefund,
    provider,
    to_provider,
)
from shop.payments.settlement import close_payment, record_refund

Status = Order.Status


class Returning(GivingBack):
    """Return what is paid: the units go back at once, and a refund is recorded."""

    was = Reservation.State.CONFIRMED
    step = Step.RETURN
    status = step.before
    over = frozenset({Status.REFUND_PENDING, Status.REFUNDED})
    event = OrderEvent.Kind.PART_RETURNED

    def restocks(self, sale: Sale) -> bool:
        """Tell whether returned units are sold again."""
        return sale.restock_returned

    def end(self, order: Order) -> None:
        """Refund all that is left."""
        take(self.step, [order.pk])
        # Of now: the order is as it was when it was read, before its row was locked.
        now = Order.objects.only("fee_amount", "conceded").get(pk=order.pk)
        kept = now.fee_amount - self._fees_back(now.fee_amount, whole=True)
        Order.objects.filter(pk=order.pk).update(fee_amount=kept)
        _record_refund(order, None, "return", keep=max(kept - now.conceded, 0))
        close_payment(Order.objects.get(pk=order.pk))

    def keep_rest(self, order: Order, part: Part, worth: int, released: Sequence[Released]) -> None:
        """Refund the part."""
        fees = Order.objects.values_list("fee_amount", flat=True).get(pk=order.pk)
        back = self._fees_back(fees, whole=False)
        if back:
            Order.objects.filter(pk=order.pk).update(fee_amount=fees - back)
        _record_refund(order, worth + back, str(part.key))

    def _fees_back(self, fees: int, *, whole: bool) -> int:
        return fees_given_back(fees, whole=whole, handed_over=self.status == Status.FULFILLED)


class TakingBack(Returning):
    """Take back what was handed over, in the same way."""

    step = Step.TAKE_BACK
    status = step.before


RETURNING = Returning()
TAKING_BACK = TakingBack()


def refund(order: Order, part: Part | None = None) -> Order:
    """Return a paid order or a part of it for a refund. Repeating it changes nothing.

    Returns:
        The order: refunded, or with the refund in progress.

    Raises:
        WrongState: it is not paid.
        Refusal: there are fewer units, or the part's key was used for another part.
        PaymentUnknown: it is returned, but the refund's result is unknown; a repeated call gets
            the result.
    """
    return _refund(order, RETURNING, part)


def take_back(order: Order, part: Part | None = None) -> Order:
    """Refund what was handed over and has come back, as `refund` does what was not."""
    return _refund(order, TAKING_BACK, part)


def _refund(order: Order, way: GivingBack, part: Part | None) -> Order:
    with ORDER_LOCK.hold(order.pk):
        give_back(order, way, part)
        pay_out_all(order)
    refresh(order)
    return order


def retry(chosen: QuerySet[Refund]) -> int:
    """Let the sweep request failed refunds at once, each as a new one at the provider.

    Returns:
        How many there are.
    """
    again = chosen.filter(state=Refund.State.FAILED)
    count: int = again.update(
        state=Refund.State.PENDING, tries=F("tries") + 1, number="", not_before=Now()
    )
    return count


def _record_refund(order: Order, amount: int | None, purpose: str, *, keep: int = 0) -> None:
    """Record the amount to refund; None: everything not refunded yet.

    Args:
        order: what is returned.
        amount: in minor units.
        purpose: what distinguishes it from other refunds of the order, for its key.
        keep: what does not go back with everything, in minor units.
    """
    # The one that pays for the order: what was taken besides has all gone back.
    taken = Payment.objects.filter(order=order, state=Payment.State.CAPTURED)
    payment = taken.filter(owed_back__lt=F("amount")).first()
    if payment is None:
        return  # it was free
    left = payment.amount - payment.owed_back - keep
    amount = left if amount is None else min(amount, left)
    if amount:
        record_refund(payment, amount, Refund.Reason.RETURNED, key_of(order, purpose))


def pay_out_all(order: Order) -> None:
    """Ask the provider for all refunds of an order that are pending."""
    pending = Refund.objects.filter(payment__order=order, state=Refund.State.PENDING)
    for each in pending.select_related("payment").order_by("pk"):
        pay_out(each)


def pay_out(refund: Refund) -> None:
    """Refund money, or get the result of an earlier attempt."""
    try:
        answer = _ask(refund)
    except PaymentDeclined:
        with transaction.atomic():
            settlement.mark_refund_failed(refund)
        return
    if not is_of_refund(answer, refund):
        raise PaymentUnknown(f"{answer.id} is not what was asked for {refund}")
    Refund.objects.filter(pk=refund.pk, number="").update(number=answer.id)
    with transaction.atomic():
        settlement.record_refund_outcome(answer)


def _ask(refund: Refund) -> ProviderRefund:
    """Return the provider's refund, after asking for it if that was not done before."""
    payment, key = refund.payment, f"{refund.key}-{refund.tries}"
    amount = to_provider(refund.amount, payment.order.currency)
    prepare_to_ask()
    if refund.attempts or refund.number:
        # The provider may have forgotten the key, and would give the money back twice.
        found = provider().find_refund(payment.intent, key=key)
        if found is not None:
            return found
    return provider().refund(payment.intent, amount=amount, key=key)
