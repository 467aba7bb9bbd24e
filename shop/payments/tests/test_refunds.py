"""Refunds: given once, never lost, whole or in parts, despite crashes and late events."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import pytest

from inventory import services
from inventory.models import StockMovement
from inventory.tests.helpers import at_once, book, kinds
from shop import orders, payments
from shop.catalogue.models import Sale
from shop.orders import NoSuchPart, Part, PartKeyReused
from shop.orders.models import Order
from shop.payments import settlement
from shop.payments.models import Refund
from shop.payments.provider import PaymentUnknown, ProviderRefund
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import (
    calls_in_transaction,
    check,
    come_to_rest,
    deliver,
    paid,
    status,
    timeline,
)
from shop.tests.provider import Crash, crash_at, lost

pytestmark = pytest.mark.django_db(transaction=True)

Status = Order.Status


def test_thirty_refunds_at_once_are_one_refund_with_one_answer(sale, fake_provider):
    mine = paid(sale, 2)
    answers = at_once([partial(payments.refund, Order.objects.get(pk=mine.pk)) for _ in range(30)])
    assert {answer.status for answer in answers} == {"refunded"}
    assert fake_provider.refunds[mine.pk] == [199_800]
    assert timeline(mine) == ["paid", "returned", "money_back", "refunded"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_refund_without_an_answer_is_found_out_by_the_same_call(when, sale, fake_provider):
    mine = paid(sale)
    setattr(fake_provider, when, lost("refund"))
    with pytest.raises(PaymentUnknown):
        payments.refund(mine)
    assert status(mine) == "refund_pending"
    assert payments.refund(mine).status == Status.REFUNDED


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_in_a_refund_is_healed_by_the_sweep(when, sale, fake_provider):
    mine = paid(sale)
    setattr(fake_provider, when, crash_at("refund"))
    with pytest.raises(Crash):
        payments.refund(mine)
    assert book(sale.item_id).available == 10
    come_to_rest(fake_provider)
    assert status(mine) == "refunded"


def test_a_refund_that_meets_the_arriving_payment_is_given(sale, fake_provider, monkeypatch):
    fake_provider.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    releasing = services.releasing

    @contextmanager
    def paid_meanwhile(*arguments, **named):
        with releasing(*arguments, **named) as released:
            yield released
        if not released:
            deliver(fake_provider)

    monkeypatch.setattr(services, "releasing", paid_meanwhile)
    assert payments.refund(mine).status in (Order.Status.REFUND_PENDING, Order.Status.REFUNDED)
    deliver(fake_provider)
    assert status(mine) == Order.Status.REFUNDED


def test_a_refund_whose_event_precedes_its_answer_is_given_once(sale, fake_provider):
    mine = paid(sale)
    fake_provider.slow = True

    def news_first(call: str) -> None:
        if call == "refund":
            with pytest.raises(settlement.NotYet):
                deliver(fake_provider)

    fake_provider.after = news_first
    assert payments.refund(mine).status == Status.REFUND_PENDING
    fake_provider.after = lambda call: None
    come_to_rest(fake_provider)
    assert status(mine) == "refunded"


def test_a_refund_that_the_provider_cannot_give_is_shown_and_can_be_tried_again(
    sale, fake_provider
):
    mine = paid(sale)
    fake_provider.slow = True
    payments.refund(mine)
    news = [ProviderRefund(r.number, "", r.amount, "failed") for r in Refund.objects.all()]
    calls_in_transaction(settlement.refunded, news[0])
    fake_provider.on_the_way.clear()
    fake_provider.slow = False
    assert (status(mine), timeline(mine)[-1]) == ("refund_pending", "refund_failed")
    payments.retry(Refund.objects.get())
    assert status(mine) == "refunded"


def test_parts_are_given_back_each_once_and_the_last_one_ends_the_order(sale, fake_provider):
    mine = paid(sale, 3)
    first = Part(1, uuid4())
    for _ in range(2):
        assert payments.refund(mine, first).status == Status.PAID
    assert (fake_provider.refunds[mine.pk], book(sale.item_id).confirmed) == ([99_900], 2)
    assert payments.refund(mine, Part(2, uuid4())).status == Status.REFUNDED
    assert fake_provider.refunds[mine.pk] == [99_900, 199_800]
    assert payments.refund(mine, first).status == Status.REFUNDED


def test_a_part_asked_for_thirty_times_at_once_is_given_back_once(sale, fake_provider):
    mine, part = paid(sale, 3), Part(1, uuid4())
    answers = at_once(
        [partial(payments.refund, Order.objects.get(pk=mine.pk), part) for _ in range(30)]
    )
    assert kinds(answers) == {"Order": 30}
    assert (fake_provider.refunds[mine.pk], book(sale.item_id).confirmed) == ([99_900], 2)


def test_parts_and_the_whole_given_back_at_once_never_come_to_more_than_was_paid(
    sale, fake_provider
):
    mine = paid(sale, 3)
    calls_ = [partial(payments.refund, Order.objects.get(pk=mine.pk)) for _ in range(2)]
    calls_ += [
        partial(payments.refund, Order.objects.get(pk=mine.pk), Part(1, uuid4())) for _ in range(4)
    ]
    at_once(calls_)
    come_to_rest(fake_provider)
    assert status(mine) == "refunded"
    assert sum(fake_provider.refunds[mine.pk]) == 299_700


def test_an_unpaid_order_is_cancelled_in_part_and_paid_for_the_rest(sale, fake_provider):
    mine, part = an_order(sale, quantity=3), Part(2, uuid4())
    for _ in range(2):
        assert orders.cancel(mine, part).amount == 99_900
    assert payments.pay(mine).status == Status.PAID
    assert fake_provider.captures[mine.pk] == [99_900]
    assert book(sale.item_id).available == 9


def test_a_part_larger_than_the_order_or_under_a_used_key_is_refused(sale):
    mine, part = an_order(sale, quantity=2), Part(1, uuid4())
    with pytest.raises(NoSuchPart):
        orders.cancel(mine, Part(3, uuid4()))
    orders.cancel(mine, part)
    with pytest.raises(PartKeyReused):
        orders.cancel(mine, Part(2, part.key))


@pytest.mark.parametrize("rule", ["restock_cancelled", "restock_returned"])
def test_units_are_written_off_where_the_sale_says_so(rule, fake_provider):
    sale = a_sale(limit=2)
    Sale.objects.filter(pk=sale.pk).update(**{rule: False})
    if rule == "restock_cancelled":
        orders.cancel(an_order(sale, quantity=2))
    else:
        payments.refund(paid(sale, 2))
    assert (book(sale.item_id).available, book(sale.item_id).total) == (8, 8)
    assert StockMovement.objects.filter(item=sale.item_id, reason="write_off").count() == 1
    check(sale, fake_provider)
