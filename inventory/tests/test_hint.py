"""The sold-out hint: cheap refusals, never a wrong one."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import transaction

from inventory import services
from inventory.models import Item
from inventory.outcomes import Granted, SoldOut
from inventory.selling import hint as module
from inventory.selling.hint import Sighting, SoldOutItems, buyers_of, end_hints, look
from inventory.selling.queue import Seller, seller
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    counted,
    crowd,
    in_thread,
    kinds,
    new_purchase,
    release,
    sell,
    sell_by,
)
from inventory.tests.processes import workers
from locking.tests.helpers import eventually

pytestmark = pytest.mark.django_db(transaction=True)

FOR_EVER = 3600.0


# --- what is seen, and for how long it is true --------------------------------------------------


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "negative control"])
@pytest.mark.parametrize(
    "how",
    [
        "restock",
        *(pytest.param(how, marks=pytest.mark.long) for how in ("release", "release inside")),
    ],
)
def test_hint_ends_before_a_unit_is_added(how, waits, stock, monkeypatch):
    """Processes look all the time, while an item sells out and gets a unit again and again."""
    item, seen, added = stock(1), [], []
    first = Item.objects.get(pk=item).version + 1
    done = threading.Event()

    def end(items: list[int]) -> None:
        if waits:
            end_hints(items)
        # Nothing is committed before this moment.
        added.append(time.monotonic())

    def add(bought: Granted) -> None:
        if how == "restock":
            services.restock(item, 1)
        elif how == "release":
            release(bought.reservation)
        else:
            with transaction.atomic():
                release(bought.reservation)

    def watch() -> None:
        while not done.is_set():
            if (sighting := look(item)) is not None:
                seen.append(sighting)

    def is_seen_sold_out() -> bool:
        return any(not sighting.level.available for sighting in seen)

    def change() -> None:
        for _ in range(60):
            bought = sell(new_purchase(item))
            if not waits:
                eventually(is_seen_sold_out)
            add(bought)
        done.set()

    for of in ("inventory.services", "inventory.release"):
        monkeypatch.setattr(f"{of}.end_hints", end)
    # The control waits for no hint, so what is seen before the first unit is added is too late.
    monkeypatch.setattr(module, "TRUST", 0.005 if waits else FOR_EVER)
    at_once([*[watch] * 4, change])
    sold_out = [sighting for sighting in seen if not sighting.level.available]
    # A level's version counts the changes: sold, added, sold, added, …
    late = [
        sighting
        for sighting in sold_out
        if sighting.until > added[(sighting.level.version - first) // 2]
    ]
    assert len(added) == 60
    assert bool(late) is not waits


def test_hint_is_not_set_while_a_unit_is_added(stock):
    item = stock(1)
    sell(new_purchase(item))

    def level() -> object:
        seen = look(item)
        return seen and seen.level.available

    with transaction.atomic():
        services.restock(item, 1)
        assert at_once([level]) == [None]
        transaction.set_rollback(True)
    assert level() == 0
    services.restock(item, 1)
    assert level() == 1
    assert look(10**12) is None, "there is no such item"


def test_hint_refuses_a_sold_out_item_without_the_database(stock, monkeypatch):
    item = stock(1)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    before = counted("inventory_refused_by_hint_total")
    monkeypatch.setattr(Seller, "sell_batch", "the database is not asked")
    assert kinds(crowd(sell, [new_purchase(item) for _ in range(200)], 20)) == {"SoldOut": 200}
    assert counted("inventory_refused_by_hint_total") - before == 200


def test_holders_and_newcomers_in_one_crowd_each_get_the_truth(stock):
    item = stock(50)
    mine = [new_purchase(item) for _ in range(50)]
    crowd(sell, mine, 10)
    newcomers = [new_purchase(item) for _ in range(50)]
    answers = crowd(sell, [*mine, *newcomers], 20)
    assert kinds(answers) == {"Granted": 50, "SoldOut": 50}
    assert {answer.purchase.key for answer in answers if isinstance(answer, Granted)} == {
        purchase.key for purchase in mine
    }


def test_hint_of_another_process_ends_at_a_restock(stock):
    item = stock(5)
    with workers(1) as [other]:
        for round_ in range(1, 6):
            other.start([new_purchase(item) for _ in range(8)], threads=4)
            assert other.kinds() == {"Granted": 5, "SoldOut": 3}
            # On a busy machine it reads the item late, and asks the database meanwhile.
            before = other.metrics()["inventory_refused_by_hint_total"]
            while other.metrics()["inventory_refused_by_hint_total"] == before:
                other.start([new_purchase(item)])
                assert other.kinds() == {"SoldOut": 1}
            assert sell(new_purchase(item)) == SoldOut(0)
            assert book(item).held == 5 * round_
            services.restock(item, 5)
    assert book(item).available == 5


def test_buyers_and_restocks_at_once_sell_exactly_everything(stock):
    item = stock(10)
    done = threading.Event()

    def restock() -> None:
        for _ in range(20):
            services.restock(item, 2)
        done.set()

    def buy_until_all_is_there() -> int:
        bought = 0
        while True:
            all_there = done.is_set()
            if isinstance(sell(new_purchase(item)), Granted):
                bought += 1
            elif all_there:
                return bought

    bought = at_once([*[buy_until_all_is_there] * 12, restock])[:-1]
    assert sum(bought) == 50
    assert (book(item).available, book(item).total) == (0, 50)


def test_holders_are_read_once_for_each_time_the_item_runs_out(stock, django_assert_num_queries):
    item = stock(3)
    for buyer in (1, 2, 3):
        sell(new_purchase(item, buyer))
    sold_out = SoldOutItems()
    with django_assert_num_queries(1):
        assert sold_out.buyers_of(item, 5) == frozenset({1, 2, 3})
        assert sold_out.buyers_of(item, 5) == frozenset({1, 2, 3})
    with django_assert_num_queries(1):
        sold_out.buyers_of(item, 6)


def test_too_many_holders_are_not_remembered(stock, monkeypatch):
    monkeypatch.setattr("inventory.selling.hint.MAX_HOLDERS", 2)
    item = stock(3)
    mine = [new_purchase(item, buyer) for buyer in (1, 2, 3)]
    for purchase in mine:
        sell(purchase)
    assert buyers_of(item, 5) is None
    assert [sell(purchase).replayed for purchase in mine] == [True] * 3
    assert sell(new_purchase(item)) == SoldOut(0)


# --- refusals without asking again --------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    """The items that were looked at."""
    seen: list[int] = []

    def looked(item: int) -> Sighting | None:
        seen.append(item)
        return look(item)

    monkeypatch.setattr(module, "look", looked)
    return seen


def test_seller_forgets_items_that_sold_out_long_ago(stock, monkeypatch):
    monkeypatch.setattr(module, "MAX_ITEMS", 3)
    selling = Seller()
    items = [stock(1) for _ in range(5)]
    for item in items:
        assert isinstance(sell_by(selling, new_purchase(item)), Granted)
        assert sell_by(selling, new_purchase(item)) == SoldOut(0)
    remembered = [item for item in items if item in selling._sold_out.seen]
    assert remembered == items[2:]
    assert sell_by(selling, new_purchase(items[0])) == SoldOut(0)


@pytest.mark.parametrize(("trust", "read"), [(FOR_EVER, 1), (0.0, 3)])
def test_hint_is_read_again_only_after_a_pause(trust, read, stock, looks, monkeypatch):
    monkeypatch.setattr(module, "TRUST", trust)
    monkeypatch.setattr(module, "LOOK_AGAIN", FOR_EVER)
    item = stock(1)
    mine = new_purchase(item, 1)
    assert isinstance(sell(mine), Granted)
    before = counted("inventory_refused_by_hint_total")
    assert [sell(new_purchase(item, buyer)) for buyer in (2, 3, 4)] == [SoldOut(0)] * 3
    assert (looks, counted("inventory_refused_by_hint_total") - before) == ([item] * read, 3)
    again = sell(mine)
    assert isinstance(again, Granted)
    assert again.replayed


def test_hint_is_read_again_by_one_request_only(stock, monkeypatch):
    monkeypatch.setattr(module, "TRUST", FOR_EVER)
    item = stock(1)
    sell(new_purchase(item, 1))
    assert sell(new_purchase(item, 2)) == SoldOut(0)
    asked, answered = threading.Event(), threading.Event()

    def slow(item: int) -> Sighting | None:
        asked.set()
        assert answered.wait(TIMEOUT)
        return look(item)

    monkeypatch.setattr(module, "look", slow)
    monkeypatch.setattr(module, "LOOK_AGAIN", FOR_EVER)
    selling = seller()
    refusing = selling._sold_out.seen[item]
    assert refusing is not None
    refusing.due = 0.0
    with in_thread(lambda: sell(new_purchase(item, 3))) as asks:
        assert asked.wait(TIMEOUT)
        assert [sell(new_purchase(item, buyer)) for buyer in (4, 5)] == [SoldOut(0)] * 2
        answered.set()
        assert asks() == SoldOut(0)
