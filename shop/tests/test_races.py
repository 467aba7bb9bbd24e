"""Races of two requests for one order: nothing is charged, refunded or restocked twice.

The provider's ledger entries are counted. The suite runs a few pairs of each kind; for more:
`RACE_PAIRS=10000 pytest shop/tests/test_races.py`.
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

from inventory.models import Reservation
from inventory.tests.helpers import at_once, books_not_enforced
from shop import orders, payments
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.checkout import Wanted, buy, check_out
from shop.orders import Part, WrongState
from shop.orders.models import Order
from shop.orders.transitions import ORDER_LOCK, Step
from shop.payments.models import Payment
from shop.payments.provider import ProviderRefund
from shop.refusals import Refusal
from shop.tests.catalogue import a_sale
from shop.tests.money import check, come_to_rest, deliver, make_due, sweep
from shop.tests.provider import FakeProvider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(0)]

PAIRS = int(os.environ.get("RACE_PAIRS", "8"))
TOGETHER = 8
"""Concurrent pairs; each request is a thread."""

Status = Order.Status
Race = Callable[[Order, FakeProvider], list[Callable[[], object]]]


def again(order: Order) -> Order:
    """Read the order as another request does."""
    return Order.objects.get(pk=order.pk)


def pay_and_cancel(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    return [partial(payments.pay, again(order)), partial(orders.cancel, again(order))]


def pay_and_expire(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    def run_out() -> None:
        make_due(order)
        orders.expire_those([order.pk])

    return [partial(payments.pay, again(order)), run_out]


def capture_and_sell(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    """The order expired during its payment, which arrives as another buyer buys its unit."""
    fake_provider.slow = True
    payments.pay(again(order))
    make_due(order)
    orders.expire_those([order.pk])
    sale = order.lines.get().sale_id
    another = User.objects.create(username=str(uuid4())).pk
    return [partial(deliver, fake_provider), partial(buy, sale, another, uuid4(), 1)]


def pay_twice(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    return [partial(payments.pay, again(order)) for _ in range(2)]


def pay_and_sweep(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    return [partial(payments.pay, again(order)), sweep]


def refund_twice(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    payments.pay(again(order))
    return [partial(payments.refund, again(order)) for _ in range(2)]


def refund_part_twice(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    payments.pay(again(order))
    part = Part(1, uuid4())
    return [partial(payments.refund, again(order), part) for _ in range(2)]


def refund_parts_and_whole(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    payments.pay(again(order))
    parts = [Part(1, uuid4()) for _ in range(2)]
    calls = [partial(payments.refund, again(order), part) for part in parts]
    return [*calls, partial(payments.refund, again(order))]


def refund_and_its_news(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    fake_provider.slow = False
    payments.pay(again(order))
    fake_provider.slow = True
    return [partial(payments.refund, again(order)), partial(deliver, fake_provider, 2)]


def refund_and_fulfil(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    payments.pay(again(order))
    return [partial(payments.refund, again(order)), partial(orders.fulfil, [order.pk])]


def cancel_and_expire(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    make_due(order)
    return [partial(orders.cancel, again(order)), partial(orders.expire_those, [order.pk])]


def cancel_and_buy(order: Order, fake_provider: FakeProvider) -> list[Callable[[], object]]:
    """A unit is returned while another buyer gets the answer "sold out"."""
    sale = order.lines.get().sale_id
    another = User.objects.create(username=str(uuid4())).pk
    return [partial(orders.cancel, again(order)), partial(buy, sale, another, uuid4(), 1)]


RACES: list[Race] = [
    pay_and_cancel,
    pay_and_expire,
    pay_twice,
    pay_and_sweep,
    capture_and_sell,
    refund_twice,
    refund_part_twice,
    refund_parts_and_whole,
    refund_and_its_news,
    refund_and_fulfil,
    cancel_and_expire,
    cancel_and_buy,
]


@pytest.fixture
def hesitant(fake_provider: FakeProvider) -> FakeProvider:
    """Make the provider pause for random times before and after it acts."""
    fake_provider.before = fake_provider.after = lambda call: time.sleep(random.random() * 0.004)
    return fake_provider


@pytest.fixture
def no_lock(monkeypatch) -> None:
    """Disable the order lock, as without Redis."""
    monkeypatch.setattr(ORDER_LOCK, "hold", lambda order: nullcontext())


def some_orders(sale: Sale, count: int) -> list[Order]:
    users = User.objects.bulk_create([User(username=str(uuid4())) for _ in range(count)])
    bought = [buy(sale.pk, user.pk, uuid4(), 2 if sale.limit > 1 else 1) for user in users]
    return [Order.objects.get(pk=purchase.order.pk) for purchase in bought]


def run(race: Race, fake_provider: FakeProvider, pairs: int) -> None:
    """Run pairs of a race; check everything after each round."""
    units = 1 if race in (capture_and_sell, cancel_and_buy) else 2
    while pairs > 0:
        count = min(pairs, TOGETHER)
        pairs -= count
        fake_provider.slow = False
        sale = a_sale(stock=count * units, limit=units)
        racers = [call for order in some_orders(sale, count) for call in race(order, fake_provider)]
        random.shuffle(racers)
        for answer in at_once(racers):
            if isinstance(answer, Exception) and not isinstance(answer, (WrongState, Refusal)):
                # An event of a refund that its request has not recorded yet is sent again.
                assert type(answer).__name__ == "NotYet", repr(answer)
        hesitation = fake_provider.before
        come_to_rest(fake_provider)
        fake_provider.before = fake_provider.after = hesitation
        check(sale, fake_provider)
        fake_provider.forget()


@pytest.mark.parametrize("race", RACES)
def test_racing_requests_end_as_if_one_came_after_the_other(race, hesitant):
    run(race, hesitant, PAIRS)


@pytest.mark.parametrize(
    ("give_back", "ended"),
    [(orders.cancel, Status.CANCELLED), (payments.refund, Status.REFUNDED)],
)
def test_returns_of_the_last_units_at_once_end_the_order(give_back, ended, no_lock, fake_provider):
    """Without Redis, the second waits for the order's row, and then sees what the first did."""
    sales = [a_sale(stock=PAIRS), a_sale(stock=PAIRS)]
    users = User.objects.bulk_create([User(username=str(uuid4())) for _ in range(PAIRS)])
    lines = [Wanted(sale.pk, 1) for sale in sales]
    bought = [check_out(user.pk, uuid4(), lines).order.pk for user in users]
    found = list(Order.objects.filter(pk__in=bought))
    if ended == Status.REFUNDED:
        for order in found:
            payments.pay(again(order))
    racers = [
        partial(give_back, again(order), Part(1, uuid4(), sale.pk))
        for order in found
        for sale in sales
    ]
    assert not [answer for answer in at_once(racers) if isinstance(answer, Exception)]
    come_to_rest(fake_provider)
    assert [again(order).status for order in found] == [ended] * PAIRS


# --- negative controls: what the races find ----------------------------------------------------


def race_at(fake_provider: FakeProvider, call: str) -> None:
    """Make two requests race just before a call of the provider."""
    meeting = Barrier(2)

    def wait(made: str) -> None:
        if made == call:
            with suppress(Exception):
                meeting.wait(5)

    fake_provider.before = wait


def race_of_two_refunds(fake_provider: FakeProvider) -> tuple[Sale, list[int]]:
    """Return a sale, and the refunds of its order after two requests for one part of it."""
    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    racers = refund_part_twice(order, fake_provider)
    race_at(fake_provider, "refund")
    at_once(racers)
    return sale, fake_provider.refunds[order.pk]


def test_refund_is_unique_by_its_key_without_the_order_lock(no_lock, fake_provider):
    """The lock only prevents the race; correctness does not depend on it."""
    sale, refunds = race_of_two_refunds(fake_provider)
    assert refunds == [99_900]
    come_to_rest(fake_provider)
    check(sale, fake_provider)


def test_refund_without_lock_and_key_is_paid_twice(no_lock, fake_provider, monkeypatch):
    refund = fake_provider.refund

    def refund_without_key(intent: str, *, amount: int, key: str) -> ProviderRefund:
        answer: ProviderRefund = refund(intent, amount=amount, key=f"{key}-{uuid4()}")
        return answer

    monkeypatch.setattr(fake_provider, "refund", refund_without_key)
    sale, refunds = race_of_two_refunds(fake_provider)
    assert refunds == [99_900, 99_900]
    with pytest.raises(AssertionError, match="was kept"):
        check(sale, fake_provider)


def test_transition_without_its_guard_pays_a_cancelled_order(fake_provider, monkeypatch):
    """Remove the guards of reservations, steps and books."""

    def unguarded_confirm(order: Order, *, late: bool) -> bool:
        Reservation.objects.filter(orderline__order=order).update(state="confirmed")
        return True

    def unguarded_step(step: Step, found: Sequence[int]) -> None:
        Order.objects.filter(pk__in=found).update(status=step.after)

    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    fake_provider.slow = True
    payments.pay(order)
    orders.cancel(again(order))
    monkeypatch.setattr("shop.payments.settlement.confirm_reservations", unguarded_confirm)
    monkeypatch.setattr("shop.payments.settlement.take", unguarded_step)
    with books_not_enforced():
        deliver(fake_provider)
    assert again(order).status == Status.PAID
    with pytest.raises(AssertionError, match=r"."):
        check(sale, fake_provider)


def test_payment_without_its_unique_index_charges_twice(fake_provider, monkeypatch):
    """Two attempts with different keys, as in a shop that draws a key per click."""
    sale = a_sale(limit=2)
    [order] = some_orders(sale, 1)
    for key in ("one", "two"):
        intent = fake_provider.create_intent(
            order=order.pk, amount=order.amount, currency="CNY", key=key
        )
        fake_provider.capture(intent.id, key=f"{key}-capture")
    Payment.objects.create(
        order=order, key="one", intent="pi_1", amount=order.amount, not_before=order.created
    )
    with pytest.raises(AssertionError, match="was charged"):
        check(sale, fake_provider)
