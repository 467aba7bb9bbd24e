"""Apply what the provider answers and reports to orders: in the database only, and in the caller's
transaction.

An event may come twice, late and in any order. One of a payment or refund whose number is not known
yet raises `NotYet`. One of another shop on the same account at the provider is logged, and left
alone.

No state of money is final: what succeeded can fail days later. A refund is then failed again and
can be retried; for a payment, an operator must decide (`shop.payments.identification.report`).
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, Max, Min, OuterRef, Q, Sum
from django.db.models.functions import Coalesce, Now

from inventory import services
from inventory.models import Reservation
from shop.money import plain
from shop.orders.invoices import issue_credit_note
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.orders.transitions import Step, note, take
from shop.payments.identification import is_of_payment, is_of_refund, key_of, report
from shop.payments.models import Discrepancy, Payment, Refund
from shop.payments.provider import Dispute, Intent, ProviderRefund, from_provider

log = logging.getLogger(__name__)

Kind = OrderEvent.Kind
Reason = Refund.Reason
Status = Order.Status

REQUEST = timedelta(seconds=10)
"""Delay before the sweep looks at a payment that a request began: longer than provider calls take.
"""


class NotYet(Exception):
    """The event's record does not exist here yet; the provider must send it again."""


def record_payment(intent: Intent) -> None:
    """Record the provider's state of a payment."""
    if intent.status == "captured":
        record_capture(intent)
    elif intent.status in {"failed", "cancelled"}:
        record_failure(intent)
    elif intent.status in {"requires_capture", "processing"}:
        payment = _payment(intent)
        if payment is not None and is_of_payment(intent, payment):
            stop_waiting(payment)


def wait_for_buyer(payment: Payment, intent: Intent) -> None:
    """Record what the buyer has to do, and hold the units for it: once per attempt, for the sale's
    time for it, and never beyond the limit. Changes nothing if the order has ended.
    """
    pending = Payment.objects.filter(pk=payment.pk, state=Payment.State.PENDING)
    row = pending.select_for_update(no_key=True).first()
    if row is None:
        return
    lines = payment.order.lines.values_list("pk", flat=True)
    until = latest_deadline(payment.order) if row.action is None else None
    deadline = services.hold_until(lines, until)
    if deadline is None:
        return
    Order.objects.filter(pk=payment.order_id).update(pay_before=deadline)
    action = row.action
    if intent.action is not None:
        stated = {name: value for name, value in asdict(intent.action).items() if value}
        action = {**stated, "expires": deadline.isoformat()}
    Payment.objects.filter(pk=payment.pk).update(action=action, waits_for_buyer=True)


def stop_waiting(payment: Payment) -> None:
    """Record that the buyer has nothing to do any more: the provider is processing."""
    Payment.objects.filter(pk=payment.pk, waits_for_buyer=True).update(waits_for_buyer=False)


def latest_deadline(order: Order) -> datetime:
    """Return until when an order's units are held for a payment that begins now."""
    terms = order.lines.aggregate(
        now=Max(Now()), hold=Min("sale__hold"), more=Min("sale__action_hold")
    )
    start: datetime = min(terms["now"], order.created + terms["hold"])
    more: timedelta = terms["more"]
    return start + more


def record_capture(intent: Intent) -> None:
    """Record a capture. Runs in the transaction that marks the event as processed."""
    payment = _payment(intent)
    if payment is None or not is_of_payment(intent, payment):
        return
    # Including payments recorded as failed: captured money is never overlooked.
    missed = Payment.objects.filter(pk=payment.pk).exclude(state=Payment.State.CAPTURED)
    if missed.update(state=Payment.State.CAPTURED, settled=Now()):
        accept_payment(payment)


def record_failure(intent: Intent) -> None:
    """Record that a payment failed or was cancelled; nothing was taken.

    A bank can refuse a debit days after it was reported as taken. The order may have been handed
    over by then, so that an operator decides what happens.
    """
    payment = _payment(intent)
    if payment is None or not is_of_payment(intent, payment):
        return
    if payment.state != Payment.State.CAPTURED:
        mark_payment_failed(payment)
        return
    text = (
        f"payment {payment.pk} of order {payment.order_id}, "
        f"{plain(payment.amount, payment.order.currency)}: the provider says that it is "
        f"{intent.status}, after it had been captured"
    )
    if report(payment, Discrepancy.Kind.REVERSED, intent.id, text):
        note(payment.order_id, Kind.PAYMENT_REVERSED, amount=payment.amount)


def mark_payment_failed(payment: Payment) -> None:
    """Record that the provider refused a payment; nothing was taken."""
    pending = Payment.objects.filter(pk=payment.pk, state=Payment.State.PENDING)
    if pending.update(state=Payment.State.FAILED, settled=Now()):
        note(payment.order_id, Kind.PAYMENT_FAILED, amount=payment.amount)


def record_refund_outcome(refund: ProviderRefund) -> None:
    """Record that a refund succeeded or failed, also if it had another outcome before."""
    tries = Refund.objects.select_related("payment__order").filter(payment__intent=refund.intent)
    ours = next((each for each in tries if each.number == refund.id), None)
    if ours is None:
        if any(each.state == Refund.State.PENDING and not each.number for each in tries):
            raise NotYet(refund.id)
        # Of another shop; or asked for again since, or given by hand at the provider, which the
        # audit finds in its ledger.
        message = "refund %s of payment %s is %s at the provider, and not one that is awaited here"
        log.warning(message, refund.id, refund.intent, refund.status)
        return
    if not is_of_refund(refund, ours):
        return
    if refund.status == "succeeded":
        mark_refund_succeeded(ours)
        _report_success_after_failure(ours)
    elif refund.status == "failed":
        mark_refund_failed(ours)
        _reopen_refund(ours)


def record_dispute(dispute: Dispute) -> None:
    """Record what became of a dispute: whether the buyer's bank takes the money back."""
    payment = Payment.objects.select_related("order").filter(intent=dispute.intent).first()
    if payment is None:
        message = "dispute %s is about %s, which is not a payment of this shop"
        log.warning(message, dispute.id, dispute.intent)
        return
    # Two events of one dispute come one after the other.
    Order.objects.select_for_update(no_key=True).get(pk=payment.order_id)
    kind = Discrepancy.Kind.DISPUTE
    known = Discrepancy.objects.filter(payment=payment, kind=kind, number=dispute.id)
    currency = payment.order.currency
    amount = from_provider(dispute.amount, currency)
    text = (
        f"payment {payment.pk} of order {payment.order_id}: dispute {dispute.id} over "
        f"{plain(amount, currency)} is {dispute.status} at the provider"
    )
    if dispute.status == "won":
        if not known.filter(closed=None).update(closed=Now()) and not known.exists():
            # So that its opening, if it comes later, is known to be over.
            Discrepancy.objects.create(
                payment=payment, kind=kind, number=dispute.id, text=text, closed=Now()
            )
        note(payment.order_id, Kind.DISPUTE_WON, amount=amount)
        return
    if known.filter(closed=None).update(text=text):
        return
    is_news = dispute.status == "lost" or not known.exists()
    if is_news and report(payment, kind, dispute.id, text):
        note(payment.order_id, Kind.DISPUTED, amount=amount)


def _payment(intent: Intent) -> Payment | None:
    """Return the payment that an event is about; None if it is not of this shop.

    Raises:
        NotYet: it may be one whose number is not written down yet.
    """
    payment = Payment.objects.select_related("order").filter(intent=intent.id).first()
    if payment is not None:
        return payment
    # The number of a payment is stored before its capture is asked for, so only these can be meant.
    begun = Payment.objects.filter(order=intent.order, intent="", state=Payment.State.PENDING)
    if intent.reference:
        begun = begun.filter(key=intent.reference)
    if begun.exists():
        raise NotYet(intent.id)
    message = "payment %s of order %s is %s at the provider, and not one of this shop"
    log.warning(message, intent.id, intent.order, intent.status)
    return None


def accept_payment(payment: Payment) -> None:
    """Mark the order of a captured payment as paid; refund the money if that is impossible.

    An order that expired while the provider was processing reclaims its units if they are still
    available. One whose buyer had something to do does not: the page showed the buyer until when.
    """
    order = Order.objects.get(pk=payment.order_id)
    if confirm_reservations(order, late=True):
        take(Step.PAY, [order.pk])
    elif payment.action is not None or not _take_again(order.pk):
        key = key_of(order, f"payment-{payment.pk}-too-late")
        record_refund(payment, payment.amount, Reason.TOO_LATE, key)
        return
    # Read after the step has locked the row: a part may have been cancelled during the payment.
    order.refresh_from_db()
    if payment.amount > order.amount:
        excess = payment.amount - order.amount
        key = key_of(order, f"payment-{payment.pk}-too-much")
        record_refund(payment, excess, Reason.TOO_MUCH, key)


def is_payable(order: int) -> bool:
    """Whether an order may be paid: it awaits payment, and no hold is past its deadline."""
    due = Reservation.objects.filter(
        orderline__order=OuterRef("pk"), state=Reservation.State.HELD, deadline__lte=Now()
    )
    # One statement: between two, the sweep could run, and neither would object.
    waiting = Order.objects.filter(pk=order, status=Status.AWAITING_PAYMENT)
    return waiting.exclude(Exists(due)).exists()


def confirm_reservations(order: Order, *, late: bool = False) -> bool:
    """Confirm the remaining reservations of an order: all or none."""
    with transaction.atomic():
        lines = order.lines.exclude(reservation__state=Reservation.State.RELEASED).order_by("pk")
        kept = list(lines.values_list("pk", flat=True))
        confirmed = all(services.confirm(line, late=late) for line in kept) and bool(kept)
        if not confirmed:
            transaction.set_rollback(True)
    return confirmed


def record_refund(payment: Payment, amount: int, reason: Reason, key: str) -> Refund:
    """Record a refund that is due; the provider is called after the commit.

    Raises:
        IntegrityError: it would exceed the amount taken, or the key exists.
    """
    Payment.objects.filter(pk=payment.pk).update(owed_back=F("owed_back") + amount)
    asked = reason in {Reason.RETURNED, Reason.GOODWILL}
    if not asked:
        note(payment.order_id, Kind.MONEY_OWED, amount=amount)
    # A request settles its own refund; the sweep does so only after a crash.
    look = Now() + REQUEST if asked else Now()
    return Refund.objects.create(
        payment=payment, key=key, amount=amount, reason=reason, not_before=look
    )


def mark_refund_succeeded(refund: Refund) -> None:
    """Record that a refund has arrived. A repeated event counts once."""
    # Lock the order first, so that the second of two concurrent refunds sees the first.
    order = Order.objects.select_for_update(no_key=True).get(pk=refund.payment.order_id)
    if not _settle(refund, Refund.State.DONE):
        return
    count_refund(refund)
    note(order.pk, Kind.MONEY_BACK, amount=refund.amount)
    close_payment(order)


def count_refund(refund: Refund) -> None:
    """Count a refund that is done, and number its credit note; the order's row must be locked."""
    order = refund.payment.order_id
    Order.objects.filter(pk=order).update(refunded=F("refunded") + refund.amount)
    if refund.reason not in {Reason.TOO_LATE, Reason.TOO_MUCH}:  # which no invoice is about
        issue_credit_note(order, refund.amount, refund.key)


def close_payment(order: Order) -> None:
    """Take the last step of a returned order once no refund is pending: its payment is over."""
    on_its_way = Refund.objects.filter(payment__order=order).exclude(state=Refund.State.DONE)
    if order.status == Status.REFUND_PENDING and not on_its_way.exists():
        take(Step.REFUND, [order.pk])


def _report_success_after_failure(refund: Refund) -> None:
    """Either the two events came in the wrong order, or the provider has paid out after all."""
    if refund.state != Refund.State.FAILED:  # as it was when the event came
        return
    payment = refund.payment
    text = (
        f"payment {payment.pk} of order {payment.order_id}: its refund {refund.pk} over "
        f"{plain(refund.amount, payment.order.currency)} failed, and the provider says that it "
        f"succeeded; look there before it is tried again"
    )
    report(payment, Discrepancy.Kind.REVIVED, refund.number, text)


def _reopen_refund(refund: Refund) -> None:
    """Record that a refund failed after it had succeeded: the buyer's bank sent the money back."""
    order = Order.objects.select_for_update(no_key=True).get(pk=refund.payment.order_id)
    done = Refund.objects.filter(pk=refund.pk, state=Refund.State.DONE)
    if not done.update(state=Refund.State.FAILED, settled=Now()):
        return
    Order.objects.filter(pk=order.pk).update(refunded=F("refunded") - refund.amount)
    note(order.pk, Kind.REFUND_FAILED, amount=refund.amount)
    if order.status == Status.REFUNDED:
        take(Step.REOPEN_REFUND, [order.pk])


def mark_refund_failed(refund: Refund) -> None:
    """Record that a pending refund failed and needs an operator."""
    order = Order.objects.select_for_update(no_key=True).get(pk=refund.payment.order_id)
    if _settle(refund, Refund.State.FAILED):
        note(order.pk, Kind.REFUND_FAILED, amount=refund.amount)


def _settle(refund: Refund, state: Refund.State) -> bool:
    pending = Refund.objects.filter(pk=refund.pk, state=Refund.State.PENDING)
    return pending.update(state=state, settled=Now()) == 1


def _take_again(order: int) -> bool:
    status = Order.objects.values_list("status", flat=True).get(pk=order)
    if status != Status.EXPIRED:
        return False
    # Of now: an operator may have lowered one since the order was placed.
    limits = dict(OrderLine.objects.filter(order=order).values_list("sale", "sale__limit"))
    try:
        with transaction.atomic(), services.reclaiming(wanted_to_the_end(order), limits):
            take(Step.PAY_LATE, [order])
    except services.NotReclaimable:
        return False
    return True


def wanted_to_the_end(order: int) -> list[int]:
    """Return an order's lines without those that the buyer had cancelled completely."""
    cancelled = Q(order__events__kind=Kind.PART_CANCELLED, order__events__line=F("pk"))
    lines = OrderLine.objects.filter(order=order).annotate(
        cancelled=Coalesce(Sum("order__events__quantity", filter=cancelled), 0)
    )
    return list(lines.filter(cancelled__lt=F("quantity")).values_list("pk", flat=True))
