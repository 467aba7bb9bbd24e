"""Return paid orders: the units go back at once, the money when the provider confirms.

A return is a guarded step that records a refund in the same transaction, under a key derived from
the order: repeated requests find that one refund and get its answer.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from inventory import services
from inventory.models import Reservation
from shop.orders.cancellation import Part, keeps_units, line_of, note_part, was_given_back
from shop.orders.models import Order, OrderEvent
from shop.orders.transitions import ORDER_LOCK, Step, WrongState, lock, refresh, take
from shop.payments import settlement
from shop.payments.keys import key_of
from shop.payments.models import Payment, Refund
from shop.payments.paying import look, prepare_to_ask
from shop.payments.provider import PaymentDeclined, PaymentUnknown, provider, to_provider
from shop.payments.settlement import finish, record_refund
from shop.payments.verification import is_of_refund
from shop.refusals import Refusal

Kind = OrderEvent.Kind
CONFIRMED = Reservation.State.CONFIRMED
RETURNED = frozenset({Order.Status.REFUND_PENDING, Order.Status.REFUNDED})
Status = Order.Status


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
    with ORDER_LOCK.hold(order.pk):
        if part is None:
            _return_all(order)
        else:
            _return_part(order, part)
        _give_back_money(order)
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


def _return_all(order: Order) -> None:
    if _release_all(order):
        return
    order.refresh_from_db()
    # If it is paid now, the payment arrived between the two looks.
    if order.status == Status.PAID and _release_all(order):
        return
    order.refresh_from_db()
    if order.status not in RETURNED:
        raise WrongState(order.status)


def _release_all(order: Order) -> bool:
    lines = list(order.lines.all())
    gone = [line.pk for line in lines if not line.sale.restock_returned]
    ids = [line.pk for line in lines]
    with services.releasing(ids, was=CONFIRMED, written_off=gone) as released:
        if released:
            _follow_return(order)
    return bool(released)


def _return_part(order: Order, part: Part) -> None:
    line = line_of(order, part)
    gone = [] if line.sale.restock_returned else [line.pk]
    with services.releasing(
        [line.pk], was=CONFIRMED, units=part.quantity, written_off=gone
    ) as released:
        status = lock(order.pk)
        if was_given_back(part, Kind.PART_RETURNED, line):
            released.clear()
        elif not released:
            raise Refusal("invalid_quantity")
        elif status != Status.PAID:
            raise WrongState(status)
        else:
            note_part(order.pk, Kind.PART_RETURNED, part, line)
            if keeps_units(order, released, CONFIRMED):
                _record_refund(order, line.price * part.quantity, str(part.key))
            else:
                _follow_return(order)


def _follow_return(order: Order) -> None:
    take(Step.RETURN, [order.pk])
    _record_refund(order, None, "return")
    finish(Order.objects.get(pk=order.pk))


def _record_refund(order: Order, amount: int | None, purpose: str) -> None:
    """Record the amount owed; None: everything not refunded yet.

    Args:
        order: what is returned.
        amount: in minor units.
        purpose: what distinguishes it from other refunds of the order, for its key.
    """
    # The one that pays for the order: what was taken besides has all gone back.
    taken = Payment.objects.filter(order=order, state=Payment.State.CAPTURED)
    payment = taken.filter(owed_back__lt=F("amount")).first()
    if payment is None:
        return  # it was free
    left = payment.amount - payment.owed_back
    amount = left if amount is None else min(amount, left)
    if amount:
        record_refund(payment, amount, Refund.Reason.RETURNED, key_of(order, purpose))


def _give_back_money(order: Order) -> None:
    pending = Refund.objects.filter(payment__order=order, state=Refund.State.PENDING)
    for each in pending.select_related("payment").order_by("pk"):
        give_back(each)


def give_back(refund: Refund) -> None:
    """Refund money, or get the result of an earlier attempt."""
    payment = refund.payment
    currency = payment.order.currency
    prepare_to_ask()
    try:
        answer = provider().refund(
            payment.intent,
            amount=to_provider(refund.amount, currency),
            key=f"{refund.key}-{refund.tries}",
        )
    except PaymentDeclined:
        with transaction.atomic():
            settlement.bounced(refund)
        return
    if not is_of_refund(answer, refund):
        raise PaymentUnknown(f"{answer.id} is not what was asked for {refund}")
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
    if look(payment).refunded == to_provider(payment.owed_back, payment.order.currency):
        with transaction.atomic():
            settlement.arrived(refund)
