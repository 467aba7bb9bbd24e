"""Pay orders: record the payment, call the provider, record its answer.

The provider is called outside transactions and without a connection, so that no row is locked and
no other request waits while it answers. Each call was recorded before (`shop/payments/models.py`):
after a crash at any point, it can be repeated under the same key. All but the two `record`
functions raise `PaymentUnknown` if no definite answer comes.
"""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from inventory.postgresql.base import borrowing_from, lend_connections, may_have_effects
from shop.orders.models import Order
from shop.orders.transitions import ORDER_LOCK, Step, WrongState, refresh, take
from shop.payments import settlement
from shop.payments.identification import is_of_payment, key_of
from shop.payments.models import Payment
from shop.payments.provider import Intent, PaymentDeclined, PaymentUnknown, provider, to_provider
from shop.refusals import Refusal
from shop.shares import ORDERS, SETTLEMENTS

Status = Order.Status

SETTLED = frozenset({Status.PAID, Status.FULFILLED})


def pay(order: Order, return_url: str = "") -> Order:
    """Pay an order, or begin to. Paying again changes nothing.

    Args:
        order: the order.
        return_url: page of the shop to which a provider sends the buyer back; empty for a buyer
            without a browser.

    Returns:
        The order: paid, or still awaiting payment while the provider is processing, or while the
        buyer has something to do (`shop.payments.progress`).

    Raises:
        WrongState: it is not awaiting payment, or its time to pay has passed.
        Refusal: the provider refused. Nothing was taken; another attempt is possible.
        PaymentUnknown: no answer came; a repeated call gets the result.
    """
    with ORDER_LOCK.hold(order.pk):
        payment = _begin(order)
        if payment is not None:
            advance(payment, return_url)
            payment.refresh_from_db()
    refresh(order)
    if order.status not in {Status.AWAITING_PAYMENT, *SETTLED}:
        # It ended meanwhile; money that was taken is being refunded.
        raise WrongState(order.status)
    failed = payment is not None and payment.state == Payment.State.FAILED
    if failed and _payable(order):
        raise Refusal("payment_declined")
    return order


def _begin(order: Order) -> Payment | None:
    """Return the payment to call the provider about; None if there is none."""
    order.refresh_from_db()
    if order.status in SETTLED:
        return None
    under_way = Payment.objects.filter(order=order, state=Payment.State.PENDING).first()
    if under_way is not None:
        return under_way
    if not _payable(order):
        return None
    if not (order.amount and settings.PAYMENT_PROVIDER):
        accept_nothing(order)
        return None
    return _write_down(order)


def _payable(order: Order) -> bool:
    """Whether a payment is possible; False if the order has been paid meanwhile.

    Raises:
        WrongState: it has ended otherwise.
    """
    if settlement.is_payable(order.pk):
        return True
    order.refresh_from_db()
    if order.status == Status.AWAITING_PAYMENT:
        # The deadline has passed and the sweep has not run yet.
        raise WrongState(Status.EXPIRED)
    if order.status not in SETTLED:
        raise WrongState(order.status)
    return False


def _write_down(order: Order) -> Payment:
    """Record an attempt with its full key, under which all its calls are made from now on.

    The attempt's number is in the key, so concurrent ones write the same row.
    """
    attempt = order.payments.filter(state=Payment.State.FAILED).count() + 1
    wanted = Payment(
        order=order,
        key=key_of(order, str(attempt)),
        amount=order.amount,
        not_before=Now() + settlement.REQUEST,
    )
    Payment.objects.bulk_create([wanted], ignore_conflicts=True)
    written = order.payments.exclude(state=Payment.State.FAILED).first()
    if written is None:
        # Another request recorded it and has been refused: its answer applies here too.
        raise Refusal("payment_declined")
    return written


def accept_nothing(order: Order) -> None:
    """Mark an order that needs no payment as paid.

    Raises:
        WrongState: it is not awaiting payment, or has expired.
    """
    with transaction.atomic():
        if not settlement.confirm_reservations(order):
            raise WrongState(Status.EXPIRED)
        take(Step.PAY, [order.pk])


def advance(payment: Payment, return_url: str = "") -> None:
    """Charge a payment while its order can be paid; otherwise make sure that nothing is taken.

    It gets the result of an earlier attempt, if there was one. If the buyer has something to do
    first, it only records that, and what was authorised is captured later.
    """
    wanted = settlement.is_payable(payment.order_id)
    if not wanted:
        settlement.stop_waiting(payment)
    try:
        intent = _intent(payment, return_url)
    except PaymentDeclined:
        record_failure(payment)
        return
    if intent.status == "requires_action" and wanted:
        with transaction.atomic():
            settlement.wait_for_buyer(payment, intent)
        return
    if intent.status in {"requires_action", "requires_capture"}:
        try:
            prepare_to_ask()
            if wanted:
                intent = provider().capture(intent.id, key=f"{payment.key}-capture")
            else:
                intent = provider().cancel(intent.id, key=f"{payment.key}-cancel")
        except PaymentDeclined:
            # Refused, or another call was first: the payment's state says which.
            intent = look(payment)
            if wanted and intent.status == "requires_capture":
                record_failure(payment)
                return
    # A capture's answer too: it may be another amount than was agreed.
    _require_answer_about(payment, intent)
    record(intent)


def record(intent: Intent) -> None:
    """Record the provider's state of a payment."""
    with transaction.atomic():
        settlement.record_payment(intent)


def record_failure(payment: Payment) -> None:
    """Record that the provider refused a payment."""
    with transaction.atomic():
        settlement.mark_payment_failed(payment)


def prepare_to_ask() -> None:
    """Return the connection before a call of the provider, after which the outcome is open."""
    lend_connections()
    may_have_effects.set(True)
    if borrowing_from.get() is ORDERS:
        borrowing_from.set(SETTLEMENTS)


def _intent(payment: Payment, return_url: str) -> Intent:
    """Return the provider's payment; create it there first if necessary."""
    if payment.intent:
        return look(payment)
    # Read before the call, which has no connection.
    order = payment.order
    # Staff may have held the order for longer than its sale does.
    expires = max(order.pay_before, settlement.latest_deadline(order))
    prepare_to_ask()
    intent = provider().create_intent(
        order=order.pk,
        amount=to_provider(payment.amount, order.currency),
        currency=order.currency,
        key=payment.key,
        return_url=return_url,
        expires=expires,
    )
    _require_answer_about(payment, intent)
    Payment.objects.filter(pk=payment.pk, intent="").update(intent=intent.id)
    payment.intent = intent.id
    return intent


def _require_answer_about(payment: Payment, intent: Intent) -> None:
    """Raise `PaymentUnknown` if the provider answers about something else: nothing is known then,
    and the discrepancy is reported.
    """
    if payment.intent not in {"", intent.id} or not is_of_payment(intent, payment):
        raise PaymentUnknown(f"{intent.id} is not what was asked for {payment}")


def look(payment: Payment) -> Intent:
    """Return a payment's current state; a repeated key would get the first answer again."""
    prepare_to_ask()
    intent = provider().get(payment.intent)
    _require_answer_about(payment, intent)
    return intent
