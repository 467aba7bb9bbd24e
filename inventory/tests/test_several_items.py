"""A process sells a few purchases each of several items in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import pytest

from inventory import services
from inventory.metrics import metrics
from inventory.models import Reservation
from inventory.outcomes import (
    Declined,
    Granted,
    KeyReused,
    LimitReached,
    NoSuchItem,
    OutcomeUnknown,
    Purchase,
    PurchaseTicket,
    SoldOut,
)
from inventory.selling import batch, guard
from inventory.selling.commit import CommitUnknown, ConditionFailed
from inventory.selling.hint import hint
from inventory.selling.seller import Seller
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    crowd,
    in_thread,
    kinds,
    new_purchase,
    open_nothing,
    problems,
    reserved,
    sell,
)
from inventory.tests.processes import workers

pytestmark = pytest.mark.django_db(transaction=True)

CLOSED = 2


@pytest.fixture
def sold_together(monkeypatch):
    """The numbers of items in transactions of several items."""
    numbers: list[int] = []
    look = batch.look

    def count(tickets, *how, **more):
        numbers.append(len({ticket.request.item for ticket in tickets}))
        return look(tickets, *how, **more)

    monkeypatch.setattr(batch, "look", count)
    return numbers


def together(purchases: Sequence[Purchase], on_granted=open_nothing) -> list[PurchaseTicket]:
    """Sell purchases in one transaction of several items; return their tickets."""
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    batch.sell(tickets, on_granted)
    return tickets


def while_another_item_is_sold(
    item: int, purchases: Sequence[Purchase], on_granted
) -> list[object]:
    """Make purchases at once while the transaction of another item is under way."""
    opening, opened = threading.Event(), threading.Event()

    def open_slowly(granted):
        opening.set()
        assert opened.wait(TIMEOUT)
        return open_nothing(granted)

    with in_thread(lambda: services.reserve(new_purchase(item), open_slowly)) as result:
        assert opening.wait(TIMEOUT)
        answers = at_once([partial(services.reserve, each, on_granted) for each in purchases])
        opened.set()
        assert isinstance(result(), Granted)
    return answers


def test_a_crowd_at_many_items_gets_exactly_what_there_is(stock, sold_together):
    items = [stock(5) for _ in range(20)]
    purchases = [new_purchase(items[n % 20]) for n in range(200)]
    answers = crowd(sell, purchases, threads=40)
    assert kinds(answers) == {"Granted": 100, "SoldOut": 100}
    for item in items:
        assert (book(item).available, book(item).held, reserved(item)) == (0, 5, 5)
    assert max(sold_together) > 1


def test_two_processes_at_many_items_sell_exactly_what_there_is(stock):
    items = [stock(15) for _ in range(20)]
    purchases = [new_purchase(items[n % 20]) for n in range(600)]
    with workers(2) as shops:
        for n, shop in enumerate(shops):
            shop.start(purchases[n::2], threads=30)
        answered = shops[0].kinds() + shops[1].kinds()
    assert answered == {"Granted": 300, "SoldOut": 300}
    for item in items:
        assert (book(item).available, book(item).held, reserved(item)) == (0, 15, 15)
    # What was sold under an item's lock has its token.
    assert Reservation.objects.filter(item__in=items, token=None).exists()


def test_without_the_guards_condition_two_transactions_would_oversell(stock, monkeypatch):
    """The negative control of the guard in the message that commits."""
    item, other = stock(1), stock(1)

    def open_while_another_buys(granted: Sequence[Granted]) -> list[str]:
        assert kinds(at_once([partial(sell, new_purchase(item))])) == {"Granted": 1}
        return open_nothing(granted)

    purchases = [new_purchase(item), new_purchase(other)]
    with pytest.raises(ConditionFailed):
        together(purchases, open_while_another_buys)
    assert (book(item).held, book(other).held) == (1, 0)
    condition = " AND available >= units"
    assert condition in guard.TAKE_OR_FAIL
    monkeypatch.setattr(guard, "TAKE_OR_FAIL", guard.TAKE_OR_FAIL.replace(condition, ""))
    item = stock(1)
    with pytest.raises(Exception, match="available") as refused:
        together([new_purchase(item), new_purchase(other)], open_while_another_buys)
    assert not isinstance(refused.value, ConditionFailed)
    assert not problems(item)


def test_an_item_with_a_refusal_is_left_for_its_locked_row(stock):
    plenty, few, limited = stock(9), stock(1), stock(9)
    tickets = together(
        [
            new_purchase(plenty),
            new_purchase(few),
            new_purchase(few),
            new_purchase(limited, limit=1, quantity=2),
        ]
    )
    assert kinds([ticket.answer for ticket in tickets]) == {"Granted": 1, "NoneType": 3}
    assert [book(item).held for item in (plenty, few, limited)] == [1, 0, 0]


def test_keys_are_answered_as_ever(stock):
    one, two = stock(9), stock(9)
    known, twice = new_purchase(one), new_purchase(two)
    first = sell(known)
    other = new_purchase(one, known.buyer, 2, key=known.key)
    tickets = together([known, twice, twice, other, new_purchase(two)])
    again, granted, repeated, reused, new = cast("Any", [each.answer for each in tickets])
    assert (again.reservation, again.replayed) == (first.reservation, True)
    assert isinstance(granted, Granted)
    assert (repeated.reservation, repeated.replayed) == (granted.reservation, True)
    assert repeated.opened == granted.opened
    assert (reused, new.replayed) == (KeyReused(), False)
    assert (book(one).held, book(two).held) == (1, 2)


def test_an_error_of_one_item_is_not_that_of_the_others(stock):
    """Whatever goes wrong together is tried again for each item alone."""

    def decline(granted: Sequence[Granted]) -> list[str]:
        if any(grant.purchase.scope == CLOSED for grant in granted):
            raise Declined({CLOSED})
        return open_nothing(granted)

    busy, *items = [stock(9) for _ in range(5)]
    limited = new_purchase(items[3], limit=1, quantity=2)
    nowhere = new_purchase(2**60)
    closed = new_purchase(items[0], scope=CLOSED)
    others = [new_purchase(items[0]), new_purchase(items[1]), new_purchase(items[2], quantity=10)]
    answers = while_another_item_is_sold(busy, [closed, limited, nowhere, *others], decline)
    assert isinstance(answers[0], Declined)
    assert answers[1] == LimitReached(1)
    assert isinstance(answers[2], NoSuchItem)
    assert kinds(answers[3:]) == {"Granted": 2, "SoldOut": 1}
    assert answers[5] == SoldOut(9)
    assert [book(item).held for item in (busy, *items)] == [1, 1, 1, 0, 0]


def test_an_item_that_runs_out_among_others_is_hinted_as_sold_out(stock):
    busy, item = stock(9), stock(1)
    answers = while_another_item_is_sold(busy, [new_purchase(item)], open_nothing)
    seen = hint().look(item)
    assert (kinds(answers), seen and seen.level.available) == ({"Granted": 1}, 0)


@pytest.mark.parametrize("how", ["alone", "among others", "as a cart"])
@pytest.mark.parametrize("arrived", [True, False])
def test_a_cut_off_commit_is_found_out_and_never_told_as_a_refusal(
    arrived, how, stock, monkeypatch
):
    """Who got a unit is told so, once. Who is refused afterwards may still get one."""
    busy, item = stock(9), stock(1)
    commit = batch.open_and_commit

    def cut_off(granted, *arguments, **how):
        if granted[0].purchase.item != item:
            return commit(granted, *arguments, **how)
        monkeypatch.setattr(batch, "open_and_commit", commit)
        if arrived:
            commit(granted, *arguments, **how)
        else:
            # Another process has sold the unit when this one asks again.
            answers = at_once([partial(Seller().sell, new_purchase(item), open_nothing)])
            assert kinds(answers) == {"Granted": 1}
        raise CommitUnknown("the answer was cut off", locked=False)

    monkeypatch.setattr(batch, "open_and_commit", cut_off)
    before = metrics.read().get("commit_unknown", 0)
    mine = new_purchase(item)
    if how == "among others":
        [answer] = while_another_item_is_sold(busy, [mine], open_nothing)
    elif how == "alone":
        [answer] = at_once([partial(sell, mine)])
    else:
        [answer] = at_once([partial(services.reserve_many, [mine], open_nothing)])
        answer = answer[0] if isinstance(answer, list) else answer
    assert metrics.read()["commit_unknown"] == before + 1
    assert isinstance(answer, Granted if arrived else OutcomeUnknown)
    assert (book(item).held, reserved(item)) == (1, 1)
