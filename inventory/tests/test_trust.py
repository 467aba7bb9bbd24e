"""How long a process may refuse on a hint without asking, and who waits for it."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from inventory.metrics import metrics
from inventory.outcomes import Granted, Level, SoldOut
from inventory.redis import client
from inventory.selling import hint as module
from inventory.selling.hint import Hint, Refusing, SoldOutItems, hint, register_of
from inventory.selling.seller import Seller, seller
from inventory.tests.helpers import new_purchase, sell

ITEM = 2**40
"""No item of any test."""


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


@pytest.fixture
def naps(monkeypatch) -> list[float]:
    """The pauses of those who add units."""
    seen: list[float] = []
    # The module's own name: other threads' pauses do not count and are not cut short.
    own = SimpleNamespace(monotonic=time.monotonic, sleep=seen.append)
    monkeypatch.setattr(module, "time", own)
    return seen


@pytest.fixture
def register() -> Hint:
    client().delete(register_of(ITEM))
    seller.cache_clear()
    return hint()


@pytest.mark.django_db(transaction=True)
def test_a_process_refuses_without_asking_again_while_it_may(stock, looks, monkeypatch):
    monkeypatch.setattr(module, "TRUST", module.LIFETIME)
    item = stock(1)
    mine = new_purchase(item, 1)
    assert isinstance(sell(mine), Granted)
    before = metrics.read()["refused_by_hint"]
    assert [sell(new_purchase(item, buyer)) for buyer in (2, 3, 4)] == [SoldOut(0)] * 3
    assert (looks, metrics.read()["refused_by_hint"] - before) == ([item], 3)
    again = sell(mine)
    assert isinstance(again, Granted)
    assert again.replayed


@pytest.mark.django_db(transaction=True)
def test_a_process_that_may_not_asks_each_time(stock, looks, monkeypatch):
    monkeypatch.setattr(module, "TRUST", 0.0)
    item = stock(1)
    sell(new_purchase(item, 1))
    assert [sell(new_purchase(item, buyer)) for buyer in (2, 3)] == [SoldOut(0)] * 2
    assert looks == [item, item]


@pytest.mark.django_db(transaction=True)
def test_one_request_asks_again_in_good_time_and_the_others_do_not_wait_for_it(stock, monkeypatch):
    monkeypatch.setattr(module, "TRUST", module.LIFETIME)
    item = stock(1)
    sell(new_purchase(item, 1))
    assert sell(new_purchase(item, 2)) == SoldOut(0)
    look, asked, answered = Hint.look, threading.Event(), threading.Event()

    def slow(self: Hint, item: int):
        asked.set()
        assert answered.wait(30)
        return look(self, item)

    monkeypatch.setattr(Hint, "look", slow)
    monkeypatch.setattr(module, "LOOK_AGAIN", module.LIFETIME)
    selling = seller()
    assert isinstance(selling, Seller)
    selling._sold_out._refusing[item].due = 0.0
    with ThreadPoolExecutor() as pool:
        asks = pool.submit(sell, new_purchase(item, 3))
        assert asked.wait(30)
        assert [sell(new_purchase(item, buyer)) for buyer in (4, 5)] == [SoldOut(0)] * 2
        assert not asks.done()
        answered.set()
        assert asks.result(30) == SoldOut(0)


def test_what_was_read_is_trusted_for_a_while_and_never_for_who_has_bought(monkeypatch):
    now = 100.0
    monkeypatch.setattr("inventory.selling.hint.time.monotonic", lambda: now)
    items = SoldOutItems(hint())
    items._refusing[ITEM] = Refusing(now + module.TRUST, frozenset({1}), due=math.inf)
    assert [items.refuses(new_purchase(ITEM, buyer)) for buyer in (1, 2)] == [False, True]
    now += module.TRUST
    assert not items.refuses(new_purchase(ITEM, 2))


def test_a_change_that_ends_a_hint_waits_until_nobody_trusts_it(register, naps):
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
