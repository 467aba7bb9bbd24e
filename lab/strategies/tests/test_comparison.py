"""The comparison strategies under real races: the safe ones are exact, the others oversell."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import override_settings

from inventory import services
from inventory.audit import audit
from inventory.models import Item, Reservation
from inventory.outcomes import Busy, Granted, Purchase
from inventory.selling.commit import CommitUnknown
from inventory.selling.rules import decide
from inventory.tests.helpers import (
    book,
    in_thread,
    kinds,
    new_purchase,
    outsider,
    problems,
    release,
    reserved,
    sell_by,
    sell_in_a_crowd,
    wait_until_blocked,
)
from inventory.tests.processes import workers
from lab.models import UnenforcedItem
from lab.strategies import DEFAULT, strategy, textbook
from lab.strategies.combining import TAKE, Guard
from lab.strategies.textbook import RowLock

pytestmark = pytest.mark.django_db(transaction=True)


def sell(purchase: Purchase, by: str = DEFAULT) -> Any:
    """Sell without opening an order."""
    return sell_by(strategy(by), purchase)


@pytest.mark.parametrize(
    ("by", "units", "buyers", "threads"),
    [
        ("combining", 2000, 5000, 250),
        ("guard", 100, 250, 16),
        pytest.param("row_lock", 100, 250, 16, marks=pytest.mark.long),
        pytest.param("preload", 1000, 2500, 250, marks=pytest.mark.long),
        pytest.param("version", 60, 150, 8, marks=pytest.mark.long),
        ("redis_lock", 20, 40, 8),
    ],
    indirect=["by"],
)
def test_strategies_with_many_threads_sell_exactly_the_stock(by, units, buyers, threads, stock):
    sell_in_a_crowd(stock(units), units, buyers, threads)


@pytest.mark.parametrize("by", ["naive"])
def test_naive_strategy_is_right_without_a_race(by, stock):
    item = stock(3)
    answers = [sell(new_purchase(item), by) for _ in range(5)]
    assert kinds(answers) == {"Granted": 3, "SoldOut": 2}
    assert problems(item) == []


def two_race_for_the_row(item, by):
    """Make two buyers read the item before either can write it."""
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM inventory_item WHERE id = %s FOR UPDATE", [item])
        calls = [partial(sell, new_purchase(item), by) for _ in range(2)]
        with in_thread(calls[0]) as first, in_thread(calls[1]) as second:
            wait_until_blocked(2)
            session.execute("COMMIT")
            return [first(), second()]


@pytest.mark.parametrize("by", ["naive"])
def test_naive_strategy_oversells_if_two_check_before_writing(by, stock):
    item = stock(1)
    assert kinds(two_race_for_the_row(item, by)) == {"Granted": 2}
    assert audit([item]).items[0].oversold == 1
    assert any("oversold by 1: 2 of 1" in problem for problem in problems(item))


@pytest.mark.parametrize("by", ["version", "guard", "row_lock"])
def test_safe_strategies_sell_once_in_the_same_race(by, stock):
    item = stock(1)
    assert kinds(two_race_for_the_row(item, by)) == {"Granted": 1, "SoldOut": 1}
    assert book(item).available == 0


def test_version_strategy_that_always_loses_is_busy(stock, monkeypatch):
    monkeypatch.setattr(textbook, "RETRY_TIME", 0.0)
    item = stock(1)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("UPDATE inventory_item SET version = version + 1 WHERE id = %s", [item])
        with in_thread(partial(sell, new_purchase(item), "version")) as buying:
            wait_until_blocked(1)
            session.execute("COMMIT")
            with pytest.raises(Busy):
                buying()
    assert reserved(item) == 0


@pytest.mark.parametrize(
    ("kind", "look_up", "finding_nothing"),
    [
        (
            Guard,
            "inventory.selling.batch.decide",
            lambda tickets, available, known, used: decide(tickets, available, {}, {}),
        ),
        (RowLock, "lab.strategies.single.find", lambda purchase: None),
    ],
)
def test_late_commit_is_not_answered_as_sold_out(
    kind, look_up, finding_nothing, stock, monkeypatch
):
    """The first attempt's commit becomes visible only after the second has looked up the key."""
    item = stock(1)
    seller, mine = kind(), new_purchase(item)
    sell_once = seller._sell_once
    committed: list[object] = []

    def commit_unseen(purchase, on_granted):
        if not committed:
            committed.append(sell_once(purchase, on_granted))
            raise CommitUnknown("the answer was cut off")
        with monkeypatch.context() as too_early:
            too_early.setattr(look_up, finding_nothing)
            return sell_once(purchase, on_granted)

    monkeypatch.setattr(seller, "_sell_once", commit_unseen)
    answer = sell_by(seller, mine)
    assert isinstance(answer, Granted)
    assert (answer.replayed, book(item).held) == (True, 1)


def start_without_safeguards() -> None:
    with override_settings(LAB_WITHOUT=["admission", "lock", "guard"]):
        apps.get_app_config("lab").ready()


def test_processes_without_guard_and_lock_oversell(stock):
    """The control of `inventory/tests/test_processes.py`: with the guard, this sells to one."""
    item = stock(20)
    with workers(2, prepare=start_without_safeguards) as shops:
        first, second = shops
        # Both have read before either commits, so the race is certain.
        first.start([new_purchase(item, quantity=15)], stop="before_commit")
        assert first.hear() == "before_commit"
        second.start([new_purchase(item, quantity=15)])
        assert second.kinds() == {"Granted": 1}
        first.go_on()
        assert first.kinds() == {"Granted": 1}
    assert any("oversold by 10: 30 of 20" in problem for problem in problems(item))


def test_oversold_units_come_back_only_up_to_the_total(stock):
    item = stock(1)
    sell(new_purchase(item), "guard")
    UnenforcedItem.add(item)
    Item.objects.filter(pk=item).update(available=1)
    sell(new_purchase(item), "guard")
    assert len(release(*Reservation.objects.values_list("pk", flat=True))) == 2
    assert Item.objects.get(pk=item).available == 1


def test_books_are_not_enforced_only_for_demonstrations():
    items = [services.stock("phone", 10).pk for _ in range(2)]
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"items": items[:1], "left": 3, "sold": 7})
    Item.objects.filter(pk=items[0]).update(available=9)
    with pytest.raises(Exception, match="is not total"):
        Item.objects.filter(pk=items[1]).update(available=9)
