"""Two who meet over one order, thousands of times: nothing is charged, refunded or restored twice.

A few pairs of each kind run with the suite; for more:
`RACE_PAIRS=10000 pytest shop/orders/tests/test_races.py`. The entries of the provider's own ledger
are counted.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from threading import Barrier
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from inventory.models import Item, Reservation
from inventory.tests.helpers import at_once, book, books_not_enforced
from shop import orders, payments
from shop.catalogue.models import Sale
from shop.checkout.purchase import buy
from shop.orders import Part, WrongState
from shop.orders.models import Order
from shop.orders.states import Step
from shop.payments.models import Payment, Refund
from shop.refusals import Refusal
from shop.tests.catalogue import a_sale
from shop.tests.money import check, come_to_rest, deliver, make_due, sweep
from shop.tests.provider import Till

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(0)]

PAIRS = int(os.environ.get("RACE_PAIRS", "16"))
TOGETHER = 8
"""Pairs at a time; each racer is a thread."""

Status = Order.Status
Race = Callable[[Order, Till], list[Callable[[], object]]]


def again(order: Order) -> Order:
    """The order as another request reads it."""
    return Order.objects.get(pk=order.pk)


def pay_and_cancel(order: Order, till: Till) -> list[Callable[[], object]]:
    return [partial(payments.pay, again(order)), partial(orders.cancel, again(order))]


def pay_and_expire(order: Order, till: Till) -> list[Callable[[], object]]:
    def run_out() -> None:
        make_due(order)
        orders.expire_those([order.pk])

    return [partial(payments.pay, again(order)), run_out]


def capture_and_sell(order: Order, till: Till) -> list[Callable[[], object]]:
    """The order expired while its payment was under way: it comes in as others buy its unit."""
    till.slow = True
    payments.pay(again(order))
    make_due(order)
    orders.expire_those([order.pk])
    sale = order.lines.get().sale_id
    another = User.objects.create(username=str(uuid4())).pk
    return [partial(deliver, till), partial(buy, sale, another, uuid4(), 1)]


def pay_twice(order: Order, till: Till) -> list[Callable[[], object]]:
    return [partial(payments.pay, again(order)) for _ in range(2)]


def pay_and_sweep(order: Order, till: Till) -> list[Callable[[], object]]:
    return [partial(payments.pay, again(order)), sweep]


def refund_twice(order: Order, till: Till) -> list[Callable[[], object]]:
    payments.pay(again(order))
    return [partial(payments.refund, again(order)) for _ in range(2)]


def refund_part_twice(order: Order, till: Till) -> list[Callable[[], object]]:
    payments.pay(again(order))
    part = Part(1, uuid4())
    return [partial(payments.refund, again(order), part) for _ in range(2)]


def refund_and_its_news(order: Order, till: Till) -> list[Callable[[], object]]:
    till.slow = False
    payments.pay(again(order))
    till.slow = True
    return [partial(payments.refund, again(order)), partial(deliver, till, 2)]


def refund_and_fulfil(order: Order, till: Till) -> list[Callable[[], object]]:
    payments.pay(again(order))
    return [partial(payments.refund, again(order)), partial(orders.fulfil, again(order))]


def cancel_and_expire(order: Order, till: Till) -> list[Callable[[], object]]:
    make_due(order)
    return [partial(orders.cancel, again(order)), partial(orders.expire_those, [order.pk])]


def cancel_and_buy(order: Order, till: Till) -> list[Callable[[], object]]:
    """A unit comes back as somebody is told that it is sold out."""
    sale = order.lines.get().sale_id
    another = User.objects.create(username=str(uuid4())).pk
    return [partial(orders.cancel, again(order)), partial(buy, sale, another, uuid4(), 1)]


RACES: dict[str, Race] = {
    race.__name__: race
    for race in (
        *(pay_and_cancel, pay_and_expire, pay_twice, pay_and_sweep, capture_and_sell),
        *(refund_twice, refund_part_twice, refund_and_its_news, refund_and_fulfil),
        *(cancel_and_expire, cancel_and_buy),
    )
}


@pytest.fixture
def hesitant(till: Till) -> Till:
    """A provider that takes a moment, a different one each time, before and after it acts."""
    till.before = till.after = lambda call: time.sleep(random.random() * 0.004)
    return till


def some_orders(sale: Sale, count: int) -> list[Order]:
    users = User.objects.bulk_create([User(username=str(uuid4())) for _ in range(count)])
    bought = [buy(sale.pk, user.pk, uuid4(), 2 if sale.limit > 1 else 1) for user in users]
    return [Order.objects.get(pk=each.order.pk) for each in bought]


def run(race: Race, till: Till, pairs: int) -> None:
    """Run pairs of a race, and look at everything after each round."""
    units = 1 if race in (capture_and_sell, cancel_and_buy) else 2
    while pairs > 0:
        count = min(pairs, TOGETHER)
        pairs -= count
        till.slow = False
        sale = a_sale(stock=count * units, limit=units)
        racers = [call for order in some_orders(sale, count) for call in race(order, till)]
        random.shuffle(racers)
        for answer in at_once(racers):
            if isinstance(answer, Exception) and not isinstance(answer, (WrongState, Refusal)):
                # News of a refund that its request has not written down yet are told again.
                assert type(answer).__name__ == "NotYet", repr(answer)
        hesitation = till.before
        come_to_rest(till)
        till.before = till.after = hesitation
        check(sale, till)
        till.forget()


@pytest.mark.parametrize("name", RACES)
def test_of_two_who_meet_each_ends_as_if_the_other_had_come_before_or_after(name, hesitant):
    run(RACES[name], hesitant, PAIRS)


def test_of_a_payment_and_a_cancellation_exactly_one_is_told_that_it_happened(hesitant):
    sale = a_sale(stock=20, limit=1)
    for order in some_orders(sale, 8):
        paid, cancelled = at_once(pay_and_cancel(order, hesitant))
        assert isinstance(paid, WrongState) != isinstance(cancelled, WrongState)
    come_to_rest(hesitant)
    check(sale, hesitant)


# --- negative controls: what the races would find ----------------------------------------------


@pytest.fixture
def no_lock(monkeypatch) -> None:
    """No lock of the order, as without Redis."""
    for module in ("payments.paying", "payments.refunding", "orders.cancellation"):
        monkeypatch.setattr(f"shop.{module}.order_lock", lambda order: nullcontext())


def meet_at(till: Till, call: str) -> None:
    """Let two meet just before a call of the provider."""
    meeting = Barrier(2)

    def wait(made: str) -> None:
        if made == call:
            with suppress(Exception):
                meeting.wait(5)

    till.before = wait


def test_without_the_lock_of_the_order_the_keys_alone_prevent_a_second_refund(no_lock, till):
    """The lock spares a meeting; it is not what makes this right."""
    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    racers = refund_part_twice(order, till)
    meet_at(till, "refund")
    at_once(racers)
    assert till.refunds[order.pk] == [99_900]
    come_to_rest(till)
    check(sale, till)


def test_without_lock_and_key_two_refunds_at_once_are_given_twice(no_lock, till, monkeypatch):
    monkeypatch.setattr(Refund, "provider_key", property(lambda refund: str(uuid4())))
    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    racers = refund_part_twice(order, till)
    meet_at(till, "refund")
    at_once(racers)
    assert till.refunds[order.pk] == [99_900, 99_900]
    with pytest.raises(AssertionError, match="was kept"):
        check(sale, till)


def test_without_the_guards_of_the_transition_a_cancelled_order_is_paid(till, monkeypatch):
    """The reservations' guard, the step's and the books' are taken away."""

    def unguarded_confirm(order: Order, *, late: bool) -> bool:
        Reservation.objects.filter(orderline__order=order).update(state="confirmed")
        return True

    def unguarded_step(step: Step, found: Sequence[int]) -> None:
        Order.objects.filter(pk__in=found).update(status=step.after)

    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    till.slow = True
    payments.pay(order)
    orders.cancel(again(order))
    monkeypatch.setattr("shop.payments.settlement.confirm", unguarded_confirm)
    monkeypatch.setattr("shop.payments.settlement.take", unguarded_step)
    with books_not_enforced():
        deliver(till)
    assert again(order).status == Status.PAID
    with pytest.raises(AssertionError, match=r"."):
        check(sale, till)


def test_without_the_unique_index_of_payments_an_order_is_charged_twice(till, monkeypatch):
    """Two attempts under keys of their own, as a shop makes them that draws a key a click."""
    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    for key in ("one", "two"):
        intent = till.create_intent(order=order.pk, amount=order.amount, currency="CNY", key=key)
        till.capture(intent.id, key=f"{key}-capture")
    Payment.objects.create(
        order=order, key="one", intent="pi_1", amount=order.amount, not_before=order.created
    )
    with pytest.raises(AssertionError, match="was charged"):
        check(sale, till)


def test_units_restored_twice_are_refused_by_the_books(till):
    sale = a_sale(limit=2)
    order, _ = some_orders(sale, 2)
    orders.cancel(order)
    assert book(sale.item_id).available == 8
    with pytest.raises(Exception, match=r"is not total"):
        Item.objects.filter(pk=sale.item_id).update(available=F("available") + 2)
