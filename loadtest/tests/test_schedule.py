"""A sale's changes and restocks, as the shop confirms them or not."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from loadtest.checker.snapshot import Terms, read
from loadtest.history import INFO, OK, Operation, operations
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import Restocks, Schedule, opening_of, schedule, write_terms
from loadtest.steps.schedule import HOURS, OTHER_PRICE, PRICE

SECOND = 1_000_000
OPENED = Terms("5", 100 * SECOND, 101 * SECOND, PRICE, 100 * SECOND, 900 * SECOND)


class Shop:
    """Confirms changes, but for those of the given numbers; its clock is the machine's."""

    def __init__(self, lost: tuple[int, ...] = ()) -> None:
        self.asked: list[dict[str, Any]] = []
        self._lost = lost
        self._began = time.monotonic()

    def now(self) -> int:
        return OPENED.done + int((time.monotonic() - self._began) * SECOND)

    def change(self, sale: str, *, price: int, paused: bool, ends_in: float) -> Terms:
        self.asked.append({"price": price, "paused": paused, "ends_in": ends_in})
        if len(self.asked) - 1 in self._lost:
            raise ShopRefused("no answer")
        now = self.now()
        return Terms(
            sale, now, now + 1, price, OPENED.starts_at, now + int(ends_in * SECOND), paused
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step._replace(after=0.0) for step in schedule.CYCLE]
    monkeypatch.setattr(schedule, "CYCLE", tuple(steps))
    monkeypatch.setattr(schedule, "LAST", schedule.LAST._replace(after=0.0))
    monkeypatch.setattr(schedule, "RETRY", 0.0)
    monkeypatch.setattr(schedule, "LOOK", 0.01)
    monkeypatch.setattr(schedule, "EMPTY", 0.05)


def taken(shop: Shop, *, repeats: bool = False) -> Schedule:
    with Schedule(OPENED, time.monotonic(), shop.change, repeats=repeats) as found:
        while repeats and len(shop.asked) < 20:
            time.sleep(0.001)
        if not repeats:
            found._thread.join()
    return found


def test_a_sale_is_paused_repriced_closed_reopened_and_closed_for_good() -> None:
    shop = Shop()
    rows = taken(shop).rows
    assert rows[0] == OPENED
    assert [(row.paused, row.price) for row in rows[1:]] == [
        (True, PRICE),
        (False, OTHER_PRICE),
        (False, OTHER_PRICE),
        (False, PRICE),
        (False, PRICE),
    ]
    assert [each["ends_in"] for each in shop.asked] == [HOURS, HOURS, 0.0, HOURS, 0.0]
    assert all(row.done for row in rows)


def test_a_change_without_an_answer_may_have_been_made_and_is_asked_for_again() -> None:
    shop = Shop(lost=(1, 2))
    rows = taken(shop).rows
    assert shop.asked[1] == shop.asked[2] == shop.asked[3]
    first, second, confirmed = rows[2:5]
    assert (first.done, second.done) == (0, 0)
    assert confirmed.done
    assert rows[1].done <= first.asked <= second.asked <= confirmed.asked
    assert (first.price, first.paused) == (confirmed.price, confirmed.paused)


def test_a_sale_that_lasts_goes_round_and_is_closed_in_the_end() -> None:
    shop = Shop()
    taken(shop, repeats=True)
    assert sum(each["paused"] for each in shop.asked) > 1
    assert shop.asked[-1]["ends_in"] == 0.0


def test_a_shop_that_does_not_answer_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "CLOSING", 0.0)
    before = len(schedule.CYCLE)
    shop = Shop(lost=tuple(range(before, 1_000_000)))
    rows = taken(shop).rows
    assert all(row.done for row in rows[: before + 1])
    assert rows[-1].done == 0


def test_the_terms_of_a_run_are_written_as_a_snapshot(tmp_path: Path) -> None:
    write_terms(tmp_path / "terms", [OPENED])
    assert list(read(tmp_path / "terms")[1]) == [OPENED]


def test_a_sale_opens_when_its_terms_say() -> None:
    later = Terms("5", 0, 10 * SECOND, PRICE, 70 * SECOND, 900 * SECOND)
    assert opening_of(later) > time.monotonic() + 50
    assert opening_of(OPENED) <= time.monotonic()


class EmptyShop(DemoShop):
    """A shop that has sold everything, and adds units, but may lose the answer."""

    def __init__(self, *, loses: bool) -> None:
        super().__init__(("127.0.0.1", 1))
        self.available = 0
        self.restocked = threading.Event()
        self._loses = loses

    def figures(self, sale: str) -> dict[str, Any]:
        return {"item": 7}

    def restock(self, sale: str, units: int) -> None:
        self.available += units
        self.restocked.set()
        if self._loses:
            raise ShopRefused("no answer")


def restocked(shop: EmptyShop, folder: Path) -> Operation:
    """The only restock of an empty sale."""
    with Restocks(shop, "5", 3, lambda: shop.available, folder) as restocks:
        assert shop.restocked.wait(30)
    assert shop.available == 3
    [told] = operations(restocks.path)
    assert restocks.times == (told.outcome == OK)
    return told


def test_an_empty_sale_is_restocked_and_the_history_tells(tmp_path: Path) -> None:
    told = restocked(EmptyShop(loses=False), tmp_path)
    assert (told.op, told.outcome, told.quantity) == ("restock", OK, 3)
    assert (told.sale, told.item) == ("5", "7")


def test_a_restock_without_an_answer_may_have_been_made(tmp_path: Path) -> None:
    assert restocked(EmptyShop(loses=True), tmp_path).outcome == INFO
