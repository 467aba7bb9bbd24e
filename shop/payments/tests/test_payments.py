"""Money: taken once, given back once, and never lost, whatever crashes or comes late."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from inventory import services
from inventory.models import StockMovement
from inventory.tests.helpers import at_once, book, kinds
from shop import orders, payments
from shop.catalogue.models import Sale
from shop.orders import KeyReused, NoSuchPart, Part, WrongState
from shop.orders.models import Order
from shop.payments import Declined, provider_calls, provider_events, settlement
from shop.payments.models import Payment, Refund
from shop.payments.provider import Intent, PaymentUnknown, ProviderRefund
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import (
    calls_in_transaction,
    check,
    come_to_rest,
    deliver,
    make_due,
    messages,
    sweep,
)
from shop.tests.provider import lost

pytestmark = pytest.mark.django_db(transaction=True)

Status = Order.Status
POINTS = [(when, call) for call in ("create", "capture") for when in ("before", "after")]


@pytest.fixture
def sale() -> Sale:
    """Ten units at 99_900, three for each buyer."""
    return a_sale(limit=3)


class Crash(BaseException):
    """The process is gone."""


def crash_at(call: str):
    def hook(made: str) -> None:
        if made == call:
            raise Crash

    return hook


def status(order: Order) -> str:
    return Order.objects.get(pk=order.pk).status


def timeline(order: Order) -> list[str]:
    return [event.kind for event in order.events.all()]


# --- paying ------------------------------------------------------------------------------------


def test_a_payment_is_taken_once_and_told(sale, till):
    mine = an_order(sale)
    for _ in range(2):
        assert payments.pay(mine).status == Status.PAID
    assert till.captures[mine.pk] == [99_900]
    assert (timeline(mine), messages(mine)) == (["paid"], ["opened", "paid"])
    check(sale, till)


def test_thirty_payments_at_once_are_one_capture(sale, till):
    mine = an_order(sale)
    answers = at_once([partial(payments.pay, Order.objects.get(pk=mine.pk)) for _ in range(30)])
    assert kinds(answers) == {"Order": 30}
    assert till.captures[mine.pk] == [99_900]
    check(sale, till)


def test_a_payment_that_takes_a_while_is_waited_for_and_its_news_counts_once(sale, till):
    till.slow = True
    mine = an_order(sale)
    for _ in range(2):
        assert payments.pay(mine).status == Status.AWAITING_PAYMENT
    deliver(till, times=3)
    assert (status(mine), timeline(mine)) == ("paid", ["paid"])
    check(sale, till)


def test_a_declined_payment_leaves_the_order_to_be_paid_in_another_way(sale, till):
    till.declines = True
    mine = an_order(sale)
    for _ in range(2):
        with pytest.raises(Declined):
            payments.pay(mine)
    till.declines = False
    assert payments.pay(mine).status == Status.PAID
    assert timeline(mine) == ["payment_failed", "payment_failed", "paid"]
    check(sale, till)


def test_news_that_come_while_a_second_request_looks_are_its_answer(sale, till, monkeypatch):
    till.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    read, news = Order.refresh_from_db, [till]

    def read_before_the_news(order: Order) -> None:
        read(order)
        while news:
            deliver(news.pop())

    monkeypatch.setattr(Order, "refresh_from_db", read_before_the_news)
    assert payments.pay(mine).status == Status.PAID
    check(sale, till)


def test_whether_an_order_can_be_paid_is_asked_in_one_statement(sale, django_assert_num_queries):
    mine = an_order(sale)
    with django_assert_num_queries(1):
        assert settlement.payable(mine.pk)
    make_due(mine)
    assert not settlement.payable(mine.pk)
    orders.expire()
    assert not settlement.payable(mine.pk)


@pytest.mark.parametrize(("when", "call"), POINTS)
def test_an_unknown_outcome_is_found_out_by_the_same_call(when, call, sale, till):
    mine = an_order(sale)
    setattr(till, when, lost(call))
    with pytest.raises(PaymentUnknown):
        payments.pay(mine)
    assert status(mine) == "awaiting_payment"
    assert payments.pay(mine).status == Status.PAID
    check(sale, till)


@pytest.mark.parametrize(("when", "call"), POINTS)
def test_a_crash_at_any_point_of_a_payment_is_healed_by_the_sweep(when, call, sale, till):
    mine = an_order(sale)
    setattr(till, when, crash_at(call))
    with pytest.raises(Crash):
        payments.pay(mine)
    come_to_rest(till)
    assert status(mine) == "paid"
    check(sale, till)


@pytest.mark.parametrize("end", ["cancelled", "expired"])
@pytest.mark.parametrize(("when", "call"), POINTS)
def test_a_payment_whose_order_ended_in_a_crash_takes_nothing_or_gives_it_back(
    when, call, end, sale, till
):
    sale = a_sale(stock=1)
    mine = an_order(sale)
    setattr(till, when, crash_at(call))
    with pytest.raises(Crash):
        payments.pay(mine)
    till.before = till.after = lambda made: None
    if end == "cancelled":
        orders.cancel(mine)
    else:
        make_due(mine)
        orders.expire()
        an_order(sale)
    come_to_rest(till)
    assert status(mine) == end
    assert sum(till.captures[mine.pk]) == sum(till.refunds[mine.pk])
    check(sale, till)


def test_news_of_a_payment_that_is_not_written_down_yet_are_to_be_told_again(sale):
    mine = an_order(sale)
    with pytest.raises(provider_events.NotYet):
        provider_calls.record(Intent("pi_77", mine.pk, 99_900, "CNY", "captured"))


def test_what_costs_nothing_is_paid_without_the_provider(till):
    sale = a_sale(price=0, limit=2)
    mine = an_order(sale, quantity=2)
    assert payments.pay(mine).status == Status.PAID
    assert payments.refund(mine).status == Status.REFUNDED
    assert not till.intents
    check(sale, till)


# --- money that comes too late -----------------------------------------------------------------


def captured_after_expiry(till, sale: Sale) -> Order:
    """An order that expires while the provider works on its payment."""
    till.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    make_due(mine)
    assert orders.expire() == 1
    return mine


def test_money_that_comes_after_expiry_takes_the_unit_once_more_if_one_is_left(till):
    sale = a_sale(stock=1)
    mine = captured_after_expiry(till, sale)
    deliver(till, times=2)
    assert (status(mine), timeline(mine)) == ("paid", ["expired", "paid_late"])
    assert (book(sale.item_id).available, book(sale.item_id).confirmed) == (0, 1)
    check(sale, till)


def test_money_that_comes_when_everything_is_sold_goes_back_by_itself_and_is_told(till):
    sale = a_sale(stock=1)
    mine = captured_after_expiry(till, sale)
    an_order(sale)
    deliver(till, times=2)
    come_to_rest(till)
    assert timeline(mine) == ["expired", "money_owed", "money_back"]
    assert messages(mine)[-2:] == ["money_owed", "money_back"]
    assert till.refunds[mine.pk] == [99_900]
    check(sale, till)


def test_money_that_comes_after_the_buyer_cancelled_goes_back(till, sale):
    till.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    assert orders.cancel(mine).status == Status.CANCELLED
    come_to_rest(till)
    assert (till.captures[mine.pk], till.refunds[mine.pk]) == ([99_900], [99_900])
    check(sale, till)


def test_an_order_that_was_cancelled_before_its_capture_is_never_charged(till, sale):
    mine = an_order(sale)
    till.before = lost("capture")
    with pytest.raises(PaymentUnknown):
        payments.pay(mine)
    orders.cancel(mine)
    sweep()
    assert till.captures[mine.pk] == []
    with pytest.raises(WrongState, match="cancelled"):
        payments.pay(mine)
    check(sale, till)


def test_what_was_paid_for_a_part_that_was_cancelled_meanwhile_goes_back(till, sale):
    till.slow = True
    mine = an_order(sale, quantity=3)
    payments.pay(mine)
    orders.cancel(mine, Part(1, uuid4()))
    come_to_rest(till)
    assert (till.captures[mine.pk], till.refunds[mine.pk]) == ([299_700], [99_900])
    assert status(mine) == "paid"
    check(sale, till)


# --- giving back -------------------------------------------------------------------------------


def paid(sale: Sale, quantity: int = 1) -> Order:
    return payments.pay(an_order(sale, quantity=quantity))


def test_thirty_refunds_at_once_are_one_refund_with_one_answer(sale, till):
    mine = paid(sale, 2)
    answers = at_once([partial(payments.refund, Order.objects.get(pk=mine.pk)) for _ in range(30)])
    assert {answer.status for answer in answers} == {"refunded"}
    assert till.refunds[mine.pk] == [199_800]
    assert timeline(mine) == ["paid", "returned", "money_back", "refunded"]
    check(sale, till)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_refund_without_an_answer_is_found_out_by_the_same_call(when, sale, till):
    mine = paid(sale)
    setattr(till, when, lost("refund"))
    with pytest.raises(PaymentUnknown):
        payments.refund(mine)
    assert status(mine) == "refund_pending"
    assert payments.refund(mine).status == Status.REFUNDED
    check(sale, till)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_in_a_refund_is_healed_by_the_sweep(when, sale, till):
    mine = paid(sale)
    setattr(till, when, crash_at("refund"))
    with pytest.raises(Crash):
        payments.refund(mine)
    assert book(sale.item_id).available == 10
    come_to_rest(till)
    assert status(mine) == "refunded"
    check(sale, till)


def test_a_refund_that_meets_the_arriving_payment_is_given(sale, till, monkeypatch):
    till.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    release = services.release

    def paid_meanwhile(*arguments, **named):
        released = release(*arguments, **named)
        if not released:
            deliver(till)
        return released

    monkeypatch.setattr(services, "release", paid_meanwhile)
    assert payments.refund(mine).status in (Status.REFUND_PENDING, Status.REFUNDED)
    deliver(till)
    assert status(mine) == Status.REFUNDED
    check(sale, till)


def test_a_refund_whose_news_come_before_its_answer_is_given_once(sale, till):
    mine = paid(sale)
    till.slow = True

    def news_first(call: str) -> None:
        if call == "refund":
            with pytest.raises(provider_events.NotYet):
                deliver(till)

    till.after = news_first
    assert payments.refund(mine).status == Status.REFUND_PENDING
    till.after = lambda call: None
    come_to_rest(till)
    assert status(mine) == "refunded"
    check(sale, till)


def test_a_refund_that_the_provider_cannot_give_is_shown_and_can_be_tried_again(sale, till):
    mine = paid(sale)
    till.slow = True
    payments.refund(mine)
    news = [ProviderRefund(r.number, "", r.amount, "failed") for r in Refund.objects.all()]
    calls_in_transaction(provider_events.refunded, news[0])
    till.on_the_way.clear()
    till.slow = False
    assert (status(mine), timeline(mine)[-1]) == ("refund_pending", "refund_failed")
    payments.retry(Refund.objects.get())
    assert status(mine) == "refunded"
    check(sale, till)


def test_parts_are_given_back_each_once_and_the_last_one_ends_the_order(sale, till):
    mine = paid(sale, 3)
    first = Part(1, uuid4())
    for _ in range(2):
        assert payments.refund(mine, first).status == Status.PAID
    assert (till.refunds[mine.pk], book(sale.item_id).confirmed) == ([99_900], 2)
    assert payments.refund(mine, Part(2, uuid4())).status == Status.REFUNDED
    assert till.refunds[mine.pk] == [99_900, 199_800]
    assert payments.refund(mine, first).status == Status.REFUNDED
    check(sale, till)


def test_a_part_asked_for_thirty_times_at_once_is_given_back_once(sale, till):
    mine, part = paid(sale, 3), Part(1, uuid4())
    answers = at_once(
        [partial(payments.refund, Order.objects.get(pk=mine.pk), part) for _ in range(30)]
    )
    assert kinds(answers) == {"Order": 30}
    assert (till.refunds[mine.pk], book(sale.item_id).confirmed) == ([99_900], 2)
    check(sale, till)


def test_parts_and_the_whole_given_back_at_once_never_come_to_more_than_was_paid(sale, till):
    mine = paid(sale, 3)
    calls_ = [partial(payments.refund, Order.objects.get(pk=mine.pk)) for _ in range(2)]
    calls_ += [
        partial(payments.refund, Order.objects.get(pk=mine.pk), Part(1, uuid4())) for _ in range(4)
    ]
    at_once(calls_)
    come_to_rest(till)
    assert status(mine) == "refunded"
    assert sum(till.refunds[mine.pk]) == 299_700
    check(sale, till)


def test_an_unpaid_order_is_cancelled_in_part_and_paid_for_the_rest(sale, till):
    mine, part = an_order(sale, quantity=3), Part(2, uuid4())
    for _ in range(2):
        assert orders.cancel(mine, part).amount == 99_900
    assert payments.pay(mine).status == Status.PAID
    assert till.captures[mine.pk] == [99_900]
    assert book(sale.item_id).available == 9
    check(sale, till)


def test_a_part_larger_than_the_order_or_under_a_used_key_is_refused(sale, till):
    mine, part = an_order(sale, quantity=2), Part(1, uuid4())
    with pytest.raises(NoSuchPart):
        orders.cancel(mine, Part(3, uuid4()))
    orders.cancel(mine, part)
    with pytest.raises(KeyReused):
        orders.cancel(mine, Part(2, part.key))
    check(sale, till)


@pytest.mark.parametrize("rule", ["restock_cancelled", "restock_returned"])
def test_units_are_written_off_where_the_sale_says_so(rule, till):
    sale = a_sale(limit=2)
    Sale.objects.filter(pk=sale.pk).update(**{rule: False})
    if rule == "restock_cancelled":
        orders.cancel(an_order(sale, quantity=2))
    else:
        payments.refund(paid(sale, 2))
    assert (book(sale.item_id).available, book(sale.item_id).total) == (8, 8)
    assert StockMovement.objects.filter(item=sale.item_id, reason="write_off").count() == 1
    check(sale, till)


# --- what cannot be ----------------------------------------------------------------------------


def reached(status: str, sale: Sale) -> Order:
    """An order that stands there."""
    order = an_order(sale)
    if status == "cancelled":
        return orders.cancel(order)
    if status == "expired":
        make_due(order)
        orders.expire()
    elif status != "awaiting_payment":
        payments.pay(order)
    if status == "fulfilled":
        orders.fulfil(order)
    if status == "refunded":
        payments.refund(order)
    order.refresh_from_db()
    return order


SAME = {"pay": {"paid", "fulfilled"}, "cancel": {"cancelled"}, "refund": {"refunded"}}
SAME["fulfil"] = {"fulfilled"}
FROM = {"pay": "awaiting_payment", "cancel": "awaiting_payment", "refund": "paid", "fulfil": "paid"}


@pytest.mark.parametrize("change", FROM)
@pytest.mark.parametrize("where", sorted({*Status.values} - {"refund_pending"}))
def test_a_change_happens_where_it_may_and_is_refused_everywhere_else(change, where, sale, till):
    order = reached(where, sale)
    before = timeline(order)
    make = getattr(payments if change in {"pay", "refund"} else orders, change)
    if where == FROM[change] or where in SAME[change]:
        make(order)
    else:
        with pytest.raises(WrongState, match=where):
            make(order)
    if where != FROM[change]:
        assert (status(order), timeline(order)) == (where, before)
    check(sale, till)


def test_the_timeline_is_never_rewritten_and_a_refund_never_deleted(sale):
    payments.refund(paid(sale))
    for forbidden in (
        "UPDATE shop_orderevent SET kind = 'cancelled'",
        "DELETE FROM shop_orderevent",
        "DELETE FROM shop_refund",
    ):
        with pytest.raises(IntegrityError), connection.cursor() as cursor:
            cursor.execute(forbidden)


def test_the_database_knows_at_most_one_payment_an_order_and_no_more_back_than_was_taken(sale):
    mine = paid(sale)
    payment = Payment.objects.get(order=mine)
    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.create(order=mine, key="another", amount=1, not_before=mine.created)
    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.filter(pk=payment.pk).update(owed_back=payment.amount + 1)
