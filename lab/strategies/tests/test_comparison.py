"""The comparison strategies under real races: the safe ones are exact, `naive` is not."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from inventory.audit import audit
from inventory.models import Item
from inventory.outcomes import Busy
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    crowd,
    in_thread,
    kinds,
    new_purchase,
    outsider,
    problems,
    reserved,
    sell_in_a_crowd,
    wait_until_blocked,
)
from lab.strategies import version
from lab.strategies.tests.helpers import sell

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("by", "units", "buyers", "threads"),
    [
        ("combining", 2000, 5000, 250),
        ("guard", 100, 250, 16),
        ("row_lock", 100, 250, 16),
        ("preload", 1000, 2500, 250),
        ("version", 60, 150, 8),
        ("redis_lock", 20, 40, 8),
    ],
    indirect=["by"],
)
def test_many_threads_on_one_item_leave_exactly_none_and_that_many_reservations(
    by, units, buyers, threads, stock
):
    sell_in_a_crowd(stock(units), units, buyers, threads)


def test_row_lock_sells_to_one_of_two_concurrent_buyers(stock):
    """The second one waits for the row before it checks, so `naive`'s race cannot happen."""
    item = stock(1)
    answers = at_once([partial(sell, new_purchase(item), "row_lock") for _ in range(2)])
    assert kinds(answers) == {"Granted": 1, "SoldOut": 1}
    assert book(item).available == 0


def race_between_check_and_write(monkeypatch):
    """Make `naive` wait between its check and its write until two buyers are there."""
    both = threading.Barrier(2)
    save = Item.save

    def wait_and_save(self, **how):
        both.wait(TIMEOUT)
        return save(self, **how)

    monkeypatch.setattr(Item, "save", wait_and_save)


def test_naive_oversells_when_two_buyers_check_before_either_writes(stock, monkeypatch):
    item = stock(1)
    race_between_check_and_write(monkeypatch)
    answers = at_once([partial(sell, new_purchase(item), "naive") for _ in range(2)])
    assert kinds(answers) == {"Granted": 2}
    assert audit([item]).items[0].oversold == 1
    assert any("oversold by 1: 2 of 1" in problem for problem in problems(item))


def test_naive_oversells_in_a_crowd_and_the_audit_says_so(stock):
    item = stock(20)
    answers = crowd(partial(sell, by="naive"), [new_purchase(item) for _ in range(200)], 12)
    assert kinds(answers)["Granted"] > 20
    assert audit([item]).items[0].oversold == kinds(answers)["Granted"] - 20
    assert problems(item) != []


@pytest.mark.parametrize("by", ["naive", "unguarded"])
def test_without_a_race_it_is_right_which_is_why_it_is_written(by, stock):
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


def test_unguarded_oversells_when_two_buyers_check_before_either_decrements(stock):
    item = stock(1)
    assert kinds(two_race_for_the_row(item, "unguarded")) == {"Granted": 2}
    assert audit([item]).items[0].oversold == 1
    assert any("oversold by 1: 2 of 1" in problem for problem in problems(item))


@pytest.mark.parametrize("by", ["version", "guard"])
def test_the_same_race_sells_the_last_unit_once_if_the_write_compares(by, stock):
    item = stock(1)
    assert kinds(two_race_for_the_row(item, by)) == {"Granted": 1, "SoldOut": 1}
    assert book(item).available == 0


def test_a_version_that_keeps_moving_is_busy_in_the_end_and_nothing_is_written(stock, monkeypatch):
    monkeypatch.setattr(version, "RETRY_TIME", 0.0)
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
