"""Refunds: given once, never lost, whole or in parts, despite crashes and late events."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import pytest

from inventory import services
from inventory.tests.helpers import at_once, book, kinds
from shop import payments
from shop.orders import Part
from shop.orders.models import Order
from shop.payments import settlement
from shop.tests.catalogue import an_order
from shop.tests.money import (
    come_to_rest,
    deliver,
    paid,
    status,
    timeline,
)
from shop.tests.provider import Crash, crash_at

pytestmark = pytest.mark.django_db(transaction=True)

Status = Order.Status


def test_thirty_refunds_at_once_are_one_refund_with_one_answer(sale, fake_provider):
    mine = paid(sale, 2)
    answers = at_once([partial(payments.refund, Order.objects.get(pk=mine.pk)) for _ in range(30)])
    assert {answer.status for answer in answers} == {"refunded"}
    assert fake_provider.refunds[mine.pk] == [199_800]
    assert timeline(mine) == ["paid", "returned", "money_back", "refunded"]


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
