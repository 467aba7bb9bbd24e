"""The sold-out hint: cheap refusals, never a wrong one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
import redis

from inventory import services
from inventory.metrics import metrics
from inventory.outcomes import Granted, Level, SoldOut
from inventory.redis import Circuit, client
from inventory.selling import hint as module
from inventory.selling.hint import (
    LIFETIME,
    BuyersOfItem,
    Hint,
    hint,
    register_of,
)
from inventory.selling.seller import Seller, seller
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    crowd,
    in_thread,
    kinds,
    new_purchase,
    sell,
)
from inventory.tests.processes import workers

pytestmark = pytest.mark.django_db(transaction=True)

ITEM = 10**12
"""An item without a row, for tests of the hint alone."""


@pytest.fixture
def register() -> Iterator[Hint]:
    """The hints, without one of the item under test."""
    client().delete(register_of(ITEM))
    yield hint()
    client().delete(register_of(ITEM))


# --- the register ------------------------------------------------------------------------------


def test_an_old_level_does_not_overwrite_a_newer_one(register):
    """A slow writer's "sold out" that arrives after the restock has published."""
    register.publish(ITEM, Level(5, 8))
    assert not register.publish(ITEM, Level(0, 7))
    assert register.read(ITEM) == Level(5, 8)


def test_a_hint_ends_by_itself(register):
    register.publish(ITEM, Level(0, 7))
    assert 0 < client().pttl(register_of(ITEM)) <= LIFETIME * 1000


def test_many_writers_at_once_leave_the_newest(register):
    levels = [Level(n % 3, n) for n in range(1, 41)]
    at_once([partial(register.publish, ITEM, level) for level in levels])
    assert register.read(ITEM) == levels[-1]


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "negative control"])
def test_no_unit_is_had_before_the_older_hint_is_gone(announced, stock, monkeypatch):
    """A buyer gets a restocked unit at once and repeats the request in another process."""
    item, seen = stock(1), []
    sell(new_purchase(item))
    sold_out = hint().read(item)
    assert sold_out is not None
    if not announced:
        monkeypatch.setattr(Hint, "announce", lambda *arguments: None)
    # What a reader gets after the commit.
    monkeypatch.setattr(
        Hint, "publish_with_retry", lambda self, of, level: seen.append(self.read(of))
    )
    level = services.restock(item, 3)
    assert seen == [level if announced else sold_out]


def test_what_was_announced_and_not_committed_gives_way_to_what_was(register):
    register.publish(ITEM, Level(0, 7))
    register.announce(ITEM, Level(5, 8))
    assert register.publish(ITEM, Level(0, 8)), "another change has the same number"
    assert register.read(ITEM) == Level(0, 8)


def test_a_full_redis_still_forgets_an_old_hint_at_once(register):
    own = Hint(client(), Circuit())
    own.publish(ITEM, Level(0, 7))
    before = str(client().config_get("maxmemory")["maxmemory"])
    client().config_set("maxmemory", 1)
    try:
        own.publish_with_retry(ITEM, Level(5, 9))
        assert own.read(ITEM) is None
    finally:
        client().config_set("maxmemory", before)


def test_a_hint_that_must_not_be_lost_is_tried_until_redis_answers(register, monkeypatch):
    write, failures = Hint._write, [redis.TimeoutError(), redis.ConnectionError()]

    def hesitate(self: Hint, item: int, level: Level) -> int:
        if failures:
            raise failures.pop()
        return write(self, item, level)

    register.publish(ITEM, Level(0, 7))
    monkeypatch.setattr(Hint, "_write", hesitate)
    register.publish_with_retry(ITEM, Level(5, 8))
    assert register.read(ITEM) == Level(5, 8)


# --- set, used, removed ------------------------------------------------------------------------


def test_the_hint_is_set_when_the_last_unit_is_committed_and_not_before(stock):
    item = stock(2)
    sell(new_purchase(item))
    assert hint().read(item) is None
    sell(new_purchase(item))
    level = hint().read(item)
    assert level is not None
    assert level.available == 0


def test_a_sold_out_item_is_refused_without_the_database(stock, monkeypatch):
    item = stock(1)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    before = metrics.read().get("refused_by_hint", 0)
    monkeypatch.setattr(Seller, "sell_batch", "the database is not asked")
    assert kinds(crowd(sell, [new_purchase(item) for _ in range(200)], 20)) == {"SoldOut": 200}
    assert metrics.read()["refused_by_hint"] - before == 200


def test_with_admission_off_the_database_answers(stock, settings):
    item = stock(1)
    sell(new_purchase(item))
    settings.INVENTORY_FEATURE_FLAGS = ["lock", "connections"]
    before = metrics.read().get("refused_by_hint", 0)
    assert sell(new_purchase(item)) == SoldOut(0)
    assert metrics.read().get("refused_by_hint", 0) == before


def test_holders_and_newcomers_in_one_crowd_each_get_the_truth(stock):
    item = stock(50)
    mine = [new_purchase(item) for _ in range(50)]
    crowd(sell, mine, 10)
    newcomers = [new_purchase(item) for _ in range(50)]
    answers = crowd(sell, [*mine, *newcomers], 20)
    assert kinds(answers) == {"Granted": 50, "SoldOut": 50}
    assert {each.purchase.key for each in answers if isinstance(each, Granted)} == {
        each.key for each in mine
    }


def test_after_a_restock_another_process_sells_at_once_and_exactly(stock):
    item = stock(5)
    with workers(1) as [other]:
        for round_ in range(1, 6):
            other.start([new_purchase(item) for _ in range(8)], threads=4)
            assert other.kinds() == {"Granted": 5, "SoldOut": 3}
            other.start([new_purchase(item)])
            assert other.kinds() == {"SoldOut": 1}
            assert sell(new_purchase(item)) == SoldOut(0)
            assert book(item).held == 5 * round_
            services.restock(item, 5)
        assert other.metrics().get("refused_by_hint", 0) > 0
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
    buyers = BuyersOfItem()
    with django_assert_num_queries(1):
        assert buyers.of(item, Level(0, 5)) == frozenset({1, 2, 3})
        assert buyers.of(item, Level(0, 5)) == frozenset({1, 2, 3})
    with django_assert_num_queries(1):
        buyers.of(item, Level(0, 6))


def test_too_many_holders_are_not_remembered(stock, monkeypatch):
    monkeypatch.setattr("inventory.selling.hint.MAX_HOLDERS", 2)
    item = stock(3)
    mine = [new_purchase(item, buyer) for buyer in (1, 2, 3)]
    for each in mine:
        sell(each)
    assert BuyersOfItem().of(item, Level(0, 5)) is None
    assert [sell(each).replayed for each in mine] == [True] * 3
    assert sell(new_purchase(item)) == SoldOut(0)


# --- refusals without asking again --------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    """The items whose hint was read."""
    seen: list[int] = []
    look = Hint.look

    def looked(self: Hint, item: int):
        seen.append(item)
        return look(self, item)

    monkeypatch.setattr(Hint, "look", looked)
    return seen


@pytest.mark.parametrize(("trust", "read"), [(LIFETIME, 1), (0.0, 3)])
def test_a_process_asks_again_only_after_a_while(trust, read, stock, looks, monkeypatch):
    monkeypatch.setattr(module, "TRUST", trust)
    monkeypatch.setattr(module, "LOOK_AGAIN", LIFETIME)
    item = stock(1)
    mine = new_purchase(item, 1)
    assert isinstance(sell(mine), Granted)
    before = metrics.read()["refused_by_hint"]
    assert [sell(new_purchase(item, buyer)) for buyer in (2, 3, 4)] == [SoldOut(0)] * 3
    assert (looks, metrics.read()["refused_by_hint"] - before) == ([item] * read, 3)
    again = sell(mine)
    assert isinstance(again, Granted)
    assert again.replayed


def test_one_request_asks_again_in_good_time_and_the_others_do_not_wait_for_it(stock, monkeypatch):
    monkeypatch.setattr(module, "TRUST", module.LIFETIME)
    item = stock(1)
    sell(new_purchase(item, 1))
    assert sell(new_purchase(item, 2)) == SoldOut(0)
    look, asked, answered = Hint.look, threading.Event(), threading.Event()

    def slow(self: Hint, item: int):
        asked.set()
        assert answered.wait(TIMEOUT)
        return look(self, item)

    monkeypatch.setattr(Hint, "look", slow)
    monkeypatch.setattr(module, "LOOK_AGAIN", module.LIFETIME)
    selling = seller()
    assert isinstance(selling, Seller)
    selling._sold_out._refusing[item].due = 0.0
    with in_thread(lambda: sell(new_purchase(item, 3))) as asks:
        assert asked.wait(TIMEOUT)
        assert [sell(new_purchase(item, buyer)) for buyer in (4, 5)] == [SoldOut(0)] * 2
        answered.set()
        assert asks() == SoldOut(0)


def test_a_change_that_ends_a_hint_waits_until_nobody_trusts_it(register, monkeypatch):
    naps: list[float] = []
    # The module's own name: other threads' pauses do not count and are not cut short.
    own = SimpleNamespace(monotonic=time.monotonic, sleep=naps.append)
    monkeypatch.setattr(module, "time", own)
    register.publish(ITEM, Level(0, 7))
    register.announce(ITEM, Level(1, 8))
    assert naps == [module.TRUST]
    register.publish_with_retry(ITEM, Level(1, 8))
    register.announce(ITEM, Level(2, 9))
    assert naps == [module.TRUST], "there was no hint to end"
    register.publish(ITEM, Level(0, 10))
    register.publish_with_retry(ITEM, Level(5, 11))
    assert naps == [module.TRUST] * 2


def test_no_hint_is_trusted_for_longer_than_it_lasts(register):
    register.publish(ITEM, Level(0, 7))
    client().pexpire(register_of(ITEM), 2)
    seen = register.look(ITEM)
    assert seen is None or seen.until <= time.monotonic() + 0.002
    register.publish(ITEM, Level(0, 7))
    seen = register.look(ITEM)
    assert seen is not None
    assert seen.until <= time.monotonic() + module.TRUST
