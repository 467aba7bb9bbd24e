"""A sale's changes and restocks, and the keys that are asked for once more."""

from __future__ import annotations

import json
import stat
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loadtest import ask_again as again
from loadtest import sale_changes
from loadtest.ask_again import ask_again
from loadtest.checker.snapshot import Terms
from loadtest.faults.fault import wait_until
from loadtest.files import leave_tokens, take_tokens
from loadtest.full_shop import ShopRefused
from loadtest.history import INFO, OK, operations
from loadtest.sale_changes import HOURS, OTHER_PRICE, PRICE, Restocks, Schedule, opening_of
from loadtest.shops.flash_sale.adapter import Adapter as OurShop
from loadtest.tests.fake_shop import FakeShop, serving
from loadtest.tests.simulated_world import World

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
    steps = [step._replace(after=0.0) for step in sale_changes.CYCLE]
    monkeypatch.setattr(sale_changes, "CYCLE", tuple(steps))
    monkeypatch.setattr(sale_changes, "LAST", sale_changes.LAST._replace(after=0.0))
    monkeypatch.setattr(sale_changes, "RETRY", 0.0)
    monkeypatch.setattr(sale_changes, "LOOK", 0.01)
    monkeypatch.setattr(sale_changes, "EMPTY", 0.05)


def taken(shop: Shop, *, repeats: bool = False) -> Schedule:
    with Schedule(OPENED, time.monotonic(), shop.change, repeats=repeats) as found:
        if repeats:
            wait_until("twenty changes were asked for", lambda: len(shop.asked) >= 20)
        else:
            found._thread.join()
    return found


def test_schedule_pauses_reprices_and_closes_the_sale() -> None:
    shop = Shop()
    rows = taken(shop).rows
    assert rows[0] == OPENED
    assert [tuple(each.values()) for each in shop.asked] == [
        (PRICE, True, HOURS),
        (OTHER_PRICE, False, HOURS),
        (OTHER_PRICE, False, 0.0),
        (PRICE, False, HOURS),
        (PRICE, False, 0.0),
    ]
    assert all(row.done for row in rows)


def test_schedule_repeats_a_change_without_an_answer() -> None:
    shop = Shop(lost=(1, 2))
    rows = taken(shop).rows
    assert shop.asked[1] == shop.asked[2] == shop.asked[3]
    first, second, confirmed = rows[2:5]
    assert (first.done, second.done) == (0, 0)
    assert confirmed.done
    assert rows[1].done <= first.asked <= second.asked <= confirmed.asked
    assert (first.price, first.paused) == (confirmed.price, confirmed.paused)


def test_schedule_repeats_and_closes_the_sale_in_the_end() -> None:
    shop = Shop()
    taken(shop, repeats=True)
    assert sum(each["paused"] for each in shop.asked) > 1
    assert shop.asked[-1]["ends_in"] == 0.0


def test_schedule_gives_up_on_a_shop_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sale_changes, "CLOSING", 0.0)
    before = len(sale_changes.CYCLE)
    shop = Shop(lost=tuple(range(before, 1_000_000)))
    rows = taken(shop).rows
    assert all(row.done for row in rows[: before + 1])
    assert rows[-1].done == 0


def test_schedule_opens_the_sale_when_its_terms_say() -> None:
    later = Terms("5", 0, 10 * SECOND, PRICE, 70 * SECOND, 900 * SECOND)
    assert opening_of(later) > time.monotonic() + 50
    assert opening_of(OPENED) <= time.monotonic()


class EmptyShop(OurShop):
    """A shop that has sold everything, and adds units, but may lose the answer."""

    def __init__(self, *, loses: bool) -> None:
        super().__init__("http://127.0.0.1:1")
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


@pytest.mark.parametrize(("loses", "outcome"), [(False, OK), (True, INFO)])
def test_schedule_restocks_an_empty_sale_and_records_it(
    loses: bool, outcome: str, tmp_path: Path
) -> None:
    shop = EmptyShop(loses=loses)
    with Restocks(shop, "5", 3, lambda: shop.available, tmp_path) as restocks:
        assert shop.restocked.wait(30)
    assert shop.available == 3
    [told] = operations(restocks.path)
    assert (told.op, told.outcome, told.quantity) == ("restock", outcome, 3)
    assert (told.sale, told.item) == ("5", "7")
    assert restocks.times == (outcome == OK)


def asked(*outcomes: tuple[int, str]) -> World:
    """Purchases of one buyer each, and how they were answered."""
    world = World()
    for number, (status, code) in enumerate(outcomes):
        order = str(number) if status == 201 else None
        about: dict[str, Any] = {"buyer": f"buyer {number}", "key": f"key {number}"}
        world.call(number, number, "order", status, code, order=order, **about)
    return world


LOST, SOLD_OUT = (0, "timeout"), (409, "sold_out")


def test_keys_of_every_kind_are_chosen_and_not_more_than_wanted(tmp_path: Path) -> None:
    world = asked((201, ""), LOST, *[SOLD_OUT] * 200)
    world.call(300, 300, "order", 409, "sold_out", cart="of one line")
    histories = world.write(tmp_path).histories()
    chosen = again.sample(histories, seed=1)
    kinds = Counter(each.kind for _, each in chosen)
    assert kinds == {"fail": again.EACH, "ok": 1, "info": 1, "cart": 1}
    assert chosen == again.sample(histories, seed=1)


def test_repeats_are_chosen_from_a_part_of_a_long_history(tmp_path: Path, monkeypatch) -> None:
    histories = asked(*[SOLD_OUT] * 60).write(tmp_path).histories()
    monkeypatch.setattr(again, "BYTES", sum(each.stat().st_size for each in histories) // 3)
    assert 0 < len(again.sample(histories, seed=1)) < 60


def test_repeats_use_the_buyers_key_and_are_recorded(tmp_path: Path) -> None:
    shop, files = FakeShop(stock=5), asked(LOST, SOLD_OUT, SOLD_OUT).write(tmp_path)
    first = shop.order("b1", "key 0", {"1": 1}, cart=False).order
    # The third buyer's token is not known.
    leave_tokens(files.path / "a.jsonl", {"buyer 0": "b1", "buyer 1": "b2"})
    with serving(shop) as url:
        ask_again(files, OurShop(url), 1, take_tokens(files.path))
    found = {each.key: each for each in operations(files.again)}
    assert set(found) == {"key 0", "key 1"}
    repeated = found["key 0"]
    assert (repeated.status, repeated.order, repeated.outcome) == (200, first, OK)
    assert (repeated.buyer, repeated.attempt, repeated.sale) == ("buyer 0", 2, "1")
    assert found["key 1"].status == 201
    # Calls have names of their own in the whole run.
    assert len({each.call for each in operations(*files.histories())}) == 5


def test_tokens_are_for_this_user_only_and_read_once(tmp_path: Path) -> None:
    leave_tokens(tmp_path / "1.1.jsonl", {"a": "1"})
    leave_tokens(tmp_path / "2.1.jsonl", {"b": "2"})
    (tmp_path / "3.1.tokens").write_text(json.dumps({"c": "3"})[:4])
    assert stat.S_IMODE((tmp_path / "1.1.tokens").stat().st_mode) == 0o600
    assert take_tokens(tmp_path) == {"a": "1", "b": "2"}
    assert take_tokens(tmp_path) == {}


def test_repeats_need_tokens(tmp_path: Path) -> None:
    files = asked(SOLD_OUT).write(tmp_path)
    ask_again(files, OurShop("http://127.0.0.1:1"), 1, {})
    assert list(operations(files.again)) == []
