"""Features of single strategies: claimed rows, compared versions."""

from __future__ import annotations

from functools import partial

import pytest

from inventory import services
from inventory.audit import audit
from inventory.outcomes import Busy, Granted, SoldOut
from inventory.tests.helpers import (
    book,
    in_thread,
    kinds,
    new_purchase,
    outsider,
    problems,
    release,
    reserved,
    wait_until_blocked,
)
from lab.models import StockUnit
from lab.strategies import retrying, unit_rows
from lab.strategies.tests.helpers import sell

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.parametrize("by", ["version", "guard", "unit_rows"])
def test_the_same_race_sells_the_last_unit_once_if_the_write_compares(by, stock):
    item = stock(1)
    assert kinds(two_race_for_the_row(item, by)) == {"Granted": 1, "SoldOut": 1}
    assert book(item).available == 0


def test_unguarded_without_a_race_is_right_which_is_why_it_is_shipped(stock):
    item = stock(3)
    answers = [sell(new_purchase(item), "unguarded") for _ in range(5)]
    assert kinds(answers) == {"Granted": 3, "SoldOut": 2}
    assert problems(item) == []


def test_a_version_that_keeps_moving_is_busy_in_the_end_and_nothing_is_written(stock, monkeypatch):
    monkeypatch.setattr(retrying, "RETRY_TIME", 0.0)
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


# --- rows --------------------------------------------------------------------------------------


def put_out(item: int) -> int:
    return StockUnit.objects.filter(item=item).count()


def test_there_are_as_many_rows_as_units_available_once_they_are_put_out(stock):
    item = stock(5)
    for left in (4, 3):
        sell(new_purchase(item), "unit_rows")
        assert put_out(item) == book(item).available == left


def test_only_a_shelf_of_a_large_stock_is_put_out(stock, monkeypatch):
    monkeypatch.setattr(unit_rows, "SHELF", 3)
    item = stock(10)
    rows = []
    for _ in range(10):
        assert isinstance(sell(new_purchase(item), "unit_rows"), Granted)
        rows.append(put_out(item))
    assert rows == [3, 2, 1, 0, 3, 2, 1, 0, 1, 0]
    assert sell(new_purchase(item), "unit_rows") == SoldOut(0)


def test_what_came_back_is_put_out_when_the_rows_are_used_up(stock):
    item = stock(2)
    first, second = (sell(new_purchase(item), "unit_rows") for _ in range(2))
    release(first.reservation, second.reservation)
    services.restock(item, 1)
    answers = [sell(new_purchase(item), "unit_rows") for _ in range(4)]
    assert kinds(answers) == {"Granted": 3, "SoldOut": 1}
    assert put_out(item) == book(item).available == 0


def test_no_buyer_is_told_sold_out_while_the_last_row_is_only_claimed(stock):
    """Its buyer may still roll back; then the next buyer gets it."""
    item = stock(2)
    sell(new_purchase(item), "unit_rows")
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("DELETE FROM lab_stockunit WHERE item_id = %s", [item])
        with in_thread(partial(sell, new_purchase(item), "unit_rows")) as buying:
            session.execute("ROLLBACK")
            assert isinstance(buying(), Granted)
    assert put_out(item) == book(item).available == 0


def test_rows_that_are_no_more_than_rows_sell_nothing(stock):
    """A cart bought without claiming rows. They only admit; the guard decides."""
    item = stock(3)
    sell(new_purchase(item), "unit_rows")
    sell(new_purchase(item, quantity=2), "guard")
    assert put_out(item) == 2
    assert sell(new_purchase(item), "unit_rows") == SoldOut(0)
    assert book(item).available == 0
