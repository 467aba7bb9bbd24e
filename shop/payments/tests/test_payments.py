"""Payments: captured once and never lost, despite crashes and late events."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction

from inventory.tests.helpers import at_once, kinds
from shop import orders, payments
from shop.orders import WrongState
from shop.orders.models import Order
from shop.payments import paying, settlement
from shop.payments.models import Payment
from shop.payments.provider import Intent, PaymentUnknown
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import (
    check,
    come_to_rest,
    deliver,
    make_due,
    paid,
    status,
    sweep,
)
from shop.tests.provider import Crash, crash_at, lost

pytestmark = pytest.mark.django_db(transaction=True)

Status = Order.Status
POINTS = [(when, call) for call in ("create", "capture") for when in ("before", "after")]


# --- paying ------------------------------------------------------------------------------------


def test_thirty_payments_at_once_are_one_capture(sale, fake_provider):
    mine = an_order(sale)
    answers = at_once([partial(payments.pay, Order.objects.get(pk=mine.pk)) for _ in range(30)])
    assert kinds(answers) == {"Order": 30}
    assert fake_provider.captures[mine.pk] == [99_900]


def test_an_event_during_a_second_request_is_its_answer(sale, fake_provider, monkeypatch):
    fake_provider.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    read, news = Order.refresh_from_db, [fake_provider]

    def read_before_the_news(order: Order) -> None:
        read(order)
        while news:
            deliver(news.pop())

    monkeypatch.setattr(Order, "refresh_from_db", read_before_the_news)
    assert payments.pay(mine).status == Status.PAID


def test_whether_an_order_can_be_paid_is_asked_in_one_statement(sale, django_assert_num_queries):
    mine = an_order(sale)
    with django_assert_num_queries(1):
        assert settlement.payable(mine.pk)
    make_due(mine)
    assert not settlement.payable(mine.pk)
    orders.expire()
    assert not settlement.payable(mine.pk)


@pytest.mark.parametrize(("when", "call"), POINTS)
def test_a_crash_at_any_point_of_a_payment_is_healed_by_the_sweep(when, call, sale, fake_provider):
    mine = an_order(sale)
    setattr(fake_provider, when, crash_at(call))
    with pytest.raises(Crash):
        payments.pay(mine)
    come_to_rest(fake_provider)
    assert status(mine) == "paid"


@pytest.mark.parametrize("end", ["cancelled", "expired"])
@pytest.mark.parametrize(("when", "call"), POINTS)
def test_a_payment_whose_order_ended_in_a_crash_takes_nothing_or_gives_it_back(
    when, call, end, sale, fake_provider
):
    sale = a_sale(stock=1)
    mine = an_order(sale)
    setattr(fake_provider, when, crash_at(call))
    with pytest.raises(Crash):
        payments.pay(mine)
    fake_provider.before = fake_provider.after = lambda made: None
    if end == "cancelled":
        orders.cancel(mine)
    else:
        make_due(mine)
        orders.expire()
        an_order(sale)
    come_to_rest(fake_provider)
    assert status(mine) == end
    assert sum(fake_provider.captures[mine.pk]) == sum(fake_provider.refunds[mine.pk])
    check(sale, fake_provider)


def test_an_event_of_an_unrecorded_payment_must_be_sent_again(sale):
    mine = an_order(sale)
    with pytest.raises(settlement.NotYet):
        paying.record(Intent("pi_77", mine.pk, 99_900, "CNY", "captured"))


# --- late captures -----------------------------------------------------------------------------


def test_an_order_that_was_cancelled_before_its_capture_is_never_charged(fake_provider, sale):
    mine = an_order(sale)
    fake_provider.before = lost("capture")
    with pytest.raises(PaymentUnknown):
        payments.pay(mine)
    orders.cancel(mine)
    sweep()
    assert fake_provider.captures[mine.pk] == []
    with pytest.raises(WrongState, match="cancelled"):
        payments.pay(mine)


# --- forbidden changes -------------------------------------------------------------------------


SAME = {"pay": {"paid", "fulfilled"}, "cancel": {"cancelled"}, "refund": {"refunded"}}
SAME["fulfil"] = {"fulfilled"}
FROM = {"pay": "awaiting_payment", "cancel": "awaiting_payment", "refund": "paid", "fulfil": "paid"}


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
