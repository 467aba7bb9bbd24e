"""The comparison strategies under real races: the safe ones are exact, `naive` is not."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from inventory.audit import audit
from inventory.models import Item
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    crowd,
    kinds,
    new_purchase,
    problems,
    sell_in_a_crowd,
)
from lab.strategies.tests.helpers import sell

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("by", "units", "buyers", "threads"),
    [
        ("combining", 2000, 5000, 250),
        ("guard", 100, 250, 16),
        ("row_lock", 100, 250, 16),
        ("preload", 1000, 2500, 250),
        ("advisory", 100, 250, 16),
        ("version", 60, 150, 8),
        ("unit_rows", 100, 250, 16),
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


def test_naive_without_a_race_is_right_which_is_why_it_is_written(stock):
    item = stock(3)
    answers = [sell(new_purchase(item), "naive") for _ in range(5)]
    assert kinds(answers) == {"Granted": 3, "SoldOut": 2}
    assert problems(item) == []
