"""Acts of staff on an order.

Those that could be meant twice (some units, an amount, more time, a mail) carry a key, which the
page makes when it is opened: sent again, they change nothing. The others end in a state of the
order, so that they happen once by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from inventory import outbox, services
from inventory.models import Reservation
from shop import orders, payments
from shop.accounts.addresses import is_mailable
from shop.catalogue.sales import database_time
from shop.mails import rendering, sending
from shop.orders.models import Order, OrderEvent, OrderLine, Status
from shop.orders.transitions import ORDER_LOCK, Act, Step, WrongState, acting, lock, note, take
from shop.payments.identification import key_of
from shop.payments.models import Discrepancy, Payment, Refund
from shop.payments.refunding import pay_out_all
from shop.payments.settlement import close_payment, count_refund, record_refund, wanted_to_the_end
from shop.refusals import Refusal

Kind = OrderEvent.Kind
Reason = Refund.Reason

KEPT = frozenset({Status.PAID, Status.FULFILLED})
"""Statuses of orders that are paid for and whose units are the buyer's."""


def cancel(order: Order, act: Act) -> None:
    """Cancel an unpaid order.

    Raises:
        WrongState: it is not awaiting payment.
    """
    with acting(act):
        orders.cancel(order)


def refund(order: Order, act: Act, part: orders.Part | None = None) -> None:
    """Take back a paid order or some units of it, handed over or not, and refund them.

    Raises:
        WrongState: it is not paid.
        Refusal: there are fewer units.
        PaymentUnknown: it is taken back, but the refund's result is not known yet.
    """
    order.refresh_from_db()
    with acting(act):
        if order.status == Status.FULFILLED:
            payments.take_back(order, part)
        else:
            payments.refund(order, part)


def concede(order: Order, act: Act, amount: int, key: UUID) -> None:
    """Give money back as goodwill; the buyer keeps the units.

    Args:
        order: paid, handed over or not.
        act: who does it, and why.
        amount: in minor units.
        key: of this act.

    Raises:
        WrongState: it is not paid.
        Refusal: more than what is left of the payment.
        PaymentUnknown: it is recorded, but its result is not known yet.
    """
    with ORDER_LOCK.hold(order.pk), acting(act):
        with _once(order, key, Kind.GOODWILL, amount) as is_new:
            if is_new:
                payment = _conceding(order, amount)
                note(order.pk, Kind.GOODWILL, amount=amount, key=key)
                record_refund(payment, amount, Reason.GOODWILL, key_of(order, str(key)))
        pay_out_all(order)


def record_refund_by_hand(order: Order, act: Act, amount: int, number: str, key: UUID) -> None:
    """Record a refund that was made at the provider, without asking the provider for it.

    It takes the place of a refund of the same amount that had failed; otherwise the buyer keeps the
    units.

    Args:
        order: the order.
        act: who does it, and why.
        amount: in minor units.
        number: the provider's number of the refund.
        key: of this act.

    Raises:
        WrongState: no refund had failed, and the order is not paid.
        Refusal: more than what is left of the payment, or the number is recorded already.
    """
    with acting(act), _once(order, key, Kind.REFUND_BY_HAND, amount) as is_new:
        if not is_new:
            return
        _require_new(number)
        note(order.pk, Kind.REFUND_BY_HAND, amount=amount, key=key)
        tries = Refund.objects.filter(payment__order=order, amount=amount)
        failed = tries.filter(state=Refund.State.FAILED).order_by("pk").first()
        if failed is None:
            _record_gone(order, _conceding(order, amount), amount, Reason.BY_HAND, number, key)
            return
        settled = Refund.objects.filter(pk=failed.pk, state=Refund.State.FAILED)
        if not settled.update(state=Refund.State.DONE, number=number, settled=Now()):
            raise Refusal("number_reused")  # it was asked for again just now
        count_refund(failed)
        close_payment(Order.objects.get(pk=order.pk))


def record_lost_dispute(order: Order, act: Act, amount: int, number: str, key: UUID) -> None:
    """Record that the buyer's bank took money back for good; the buyer keeps the units.

    Closes the dispute, if it is open.

    Args:
        order: paid, handed over or not.
        act: who does it, and why.
        amount: in minor units.
        number: the provider's number of the dispute.
        key: of this act.

    Raises:
        WrongState: it is not paid.
        Refusal: more than what is left of the payment, or the number is recorded already.
    """
    with acting(act), _once(order, key, Kind.DISPUTE_LOST, amount) as is_new:
        if not is_new:
            return
        _require_new(number)
        note(order.pk, Kind.DISPUTE_LOST, amount=amount, key=key)
        _record_gone(order, _conceding(order, amount), amount, Reason.DISPUTE, number, key)
        kind = Discrepancy.Kind.DISPUTE
        disputes = Discrepancy.objects.filter(payment__order=order, kind=kind, number=number)
        disputes.filter(closed=None).update(closed=Now())


def hold(order: Order, act: Act, time: timedelta, key: UUID) -> None:
    """Give the buyer time to pay, from now on: hold the units for longer, or again.

    Args:
        order: unpaid, or expired with units still in stock.
        act: who does it, and why.
        time: from now, by the database's clock; what ends later already stays as it is.
        key: of this act.

    Raises:
        WrongState: it is neither unpaid nor expired.
        Refusal: it is expired and cannot be held again.
    """
    with ORDER_LOCK.hold(order.pk), acting(act), transaction.atomic():
        # First, as everywhere: a payment that arrives waits, or is seen here.
        list(Payment.objects.filter(order=order).select_for_update(no_key=True).order_by("pk"))
        until = database_time() + time
        if Order.objects.filter(pk=order.pk, status=Status.EXPIRED).exists():
            if not _was_done(order, key, Kind.EXTENDED):
                _renew(order, until, key)
            return
        held = Reservation.objects.filter(orderline__order=order, state=Reservation.State.HELD)
        rows = held.select_for_update(no_key=True, of=("self",)).order_by("pk")
        reservations = [row.pk for row in rows]
        status = lock(order.pk)
        if _was_done(order, key, Kind.EXTENDED):
            return
        if status != Status.AWAITING_PAYMENT:
            raise WrongState(status)
        until = max(until, Order.objects.values_list("pay_before", flat=True).get(pk=order.pk))
        Reservation.objects.filter(pk__in=reservations).update(deadline=until)
        Order.objects.filter(pk=order.pk).update(pay_before=until)
        note(order.pk, Kind.EXTENDED, key=key)


def mails_of(order: Order) -> list[rendering.Kind]:
    """Return the mails that an order has caused so far and that still say what is true."""
    kinds = [rendering.Kind.CONFIRMATION] if order.status == Status.AWAITING_PAYMENT else []
    for event in order.events.all():
        kind = rendering.occasion(event)
        # A renewed or late paid order is expired no more.
        no_more = kind == rendering.Kind.EXPIRED and order.status != Status.EXPIRED
        if kind is not None and not no_more:
            kinds.append(kind)
    return list(dict.fromkeys(kinds))


def resend(order: Order, act: Act, kind: rendering.Kind, key: UUID) -> None:
    """Send a mail about an order again, as a new mail.

    Raises:
        Refusal: the buyer has no confirmed address.
    """
    if not is_mailable(order.buyer.email):
        raise Refusal("no_address")
    with acting(act), _once(order, key, Kind.MAIL_RESENT) as is_new:
        if is_new:
            note(order.pk, Kind.MAIL_RESENT, key=key)
            again = {"order": order.pk, "again": key.hex}
            outbox.emit(sending.topic(kind), again, queue=sending.QUEUE)


@contextmanager
def _once(order: Order, key: UUID, kind: Kind, amount: int | None = None) -> Iterator[bool]:
    """Lock an order in a transaction, and yield whether an act's key is new.

    Raises:
        Refusal: the key was used for another act, or another amount.
    """
    with transaction.atomic():
        lock(order.pk)
        yield not _was_done(order, key, kind, amount)


def _was_done(order: Order, key: UUID, kind: Kind, amount: int | None = None) -> bool:
    event = OrderEvent.objects.filter(order=order, key=key).first()
    if event is not None and (event.kind, event.amount) != (kind, amount):
        raise Refusal("idempotency_key_reused")
    return event is not None


def _conceding(order: Order, amount: int) -> Payment:
    """Count money that goes back while the buyer keeps the units; return the payment it is of.

    The order's row must be locked.
    """
    status = Order.objects.values_list("status", flat=True).get(pk=order.pk)
    if status not in KEPT:
        raise WrongState(status)
    taken = Payment.objects.filter(order=order, state=Payment.State.CAPTURED)
    payment = taken.filter(amount__gte=F("owed_back") + amount).order_by("pk").first()
    if payment is None:
        raise Refusal("too_much_back")
    Order.objects.filter(pk=order.pk).update(conceded=F("conceded") + amount)
    return payment


def _record_gone(
    order: Order, payment: Payment, amount: int, reason: Reason, number: str, key: UUID
) -> None:
    """Record money that has gone back already."""
    Payment.objects.filter(pk=payment.pk).update(owed_back=F("owed_back") + amount)
    refund = Refund.objects.create(
        payment=payment,
        key=key_of(order, str(key)),
        number=number,
        amount=amount,
        reason=reason,
        state=Refund.State.DONE,
        settled=Now(),
        not_before=Now(),
    )
    count_refund(refund)


def _require_new(number: str) -> None:
    if Refund.objects.filter(number=number).exists():
        raise Refusal("number_reused")


def _renew(order: Order, until: datetime, key: UUID) -> None:
    """Take the units of an expired order again, as for a payment that is late.

    Not of one that was paid too late: that payment is going back, and another one would be taken
    for it.
    """
    if Payment.objects.filter(order=order, state=Payment.State.CAPTURED).exists():
        raise Refusal("not_renewable")
    limits = dict(OrderLine.objects.filter(order=order).values_list("sale", "sale__limit"))
    try:
        with services.reclaiming(wanted_to_the_end(order.pk), limits, until=until):
            take(Step.RENEW, [order.pk])
            Order.objects.filter(pk=order.pk).update(pay_before=until)
            note(order.pk, Kind.EXTENDED, key=key)
    except services.NotReclaimable as error:
        raise Refusal("not_renewable") from error
