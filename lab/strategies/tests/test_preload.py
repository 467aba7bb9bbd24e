"""The Redis counter: it may admit too many and must refuse no buyer wrongly."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import redis

from development.servers import free_port
from inventory import services
from inventory.outcomes import Busy, Granted, Level, SoldOut
from inventory.redis import Circuit
from inventory.tests.helpers import (
    at_once,
    book,
    crowd,
    in_thread,
    kinds,
    new_purchase,
    release,
    sell,
    sell_by,
)
from inventory.tests.processes import workers
from lab.strategies import redis_counter
from lab.strategies.preload import Preload
from lab.strategies.redis_counter import Counter, counter
from shop.redis import client

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("by", ["preload"], indirect=True),
    pytest.mark.usefixtures("by"),
]


def left(item: int) -> int:
    """Return the counter's value."""
    return int(client().hget(f"preload:{{{item}}}", "units") or 0)


def tickets(item: int) -> int:
    return client().hlen(f"preload:{{{item}}}:tickets")


def test_preload_counter_follows_sales_and_refusals(stock):
    item = stock(10)
    sell(new_purchase(item, 1, limit=1))
    assert (left(item), tickets(item)) == (9, 0)
    sell(
        new_purchase(item, 1, limit=1)
    )  # over the limit: the database refuses, and the unit is returned
    assert (left(item), tickets(item)) == (9, 0)
    mine = new_purchase(item, 2)
    assert [sell(mine).replayed for _ in range(2)] == [False, True]
    assert (left(item), tickets(item)) == (8, 0)
    assert book(item).available == 8


def test_preload_refuses_sold_out_items_without_the_database(stock, monkeypatch):
    item = stock(1)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)

    def refuse(*arguments, **how):
        raise AssertionError("the database was queried")

    monkeypatch.setattr(Preload, "sell_batch", staticmethod(refuse))
    assert kinds([sell(new_purchase(item)) for _ in range(5)]) == {"SoldOut": 5}


def test_preload_takes_the_ticket_of_a_failed_purchase_back(stock):
    item = stock(1)

    def cannot(granted):
        raise RuntimeError("no order today")

    with pytest.raises(RuntimeError):
        services.reserve(new_purchase(item), cannot)
    assert (left(item), tickets(item)) == (1, 0)


def test_preload_sells_nothing_without_redis(stock):
    nowhere = redis.Redis(port=free_port(), socket_connect_timeout=0.1)
    shop = Preload(Counter(nowhere, Circuit()))
    item = stock(1)
    with pytest.raises(Busy):
        sell_by(shop, new_purchase(item))
    assert book(item).available == 1


def test_preload_sells_exactly_the_stock_while_redis_forgets(stock):
    item = stock(150)
    over = threading.Event()

    def forget() -> None:
        while not over.wait(0.005):
            client().flushdb()

    with in_thread(forget) as forgetting:
        answers = crowd(sell, [new_purchase(item) for _ in range(400)], 40)
        over.set()
        forgetting()
    outcomes = kinds(answers)
    # A counter that vanishes after each load cannot count; still, nothing is oversold.
    assert outcomes["Granted"] + outcomes["SoldOut"] + outcomes["Busy"] == 400
    assert book(item).held == outcomes["Granted"]
    rest = 150 - outcomes["Granted"]
    later = kinds([sell(new_purchase(item)) for _ in range(rest + 1)])
    assert (later["Granted"], later["SoldOut"]) == (rest, 1)


def test_preload_counter_that_is_too_high_does_not_oversell(stock):
    item = stock(5)
    sell(new_purchase(item))
    client().hset(f"preload:{{{item}}}", "units", 1000)
    answers = at_once([partial(sell, new_purchase(item)) for _ in range(20)])
    assert kinds(answers) == {"Granted": 4, "SoldOut": 16}
    assert book(item).available == 0


def test_preload_sells_the_units_of_a_dead_process_again(stock):
    """The counter lacks these units until the tickets expire, so it does not count until then."""
    item = stock(3)
    sell(new_purchase(item))
    with workers(1) as [shop]:
        shop.start([new_purchase(item)], stop="before_commit")
        assert shop.hear() == "before_commit"
        shop.kill()
    assert (left(item), tickets(item), book(item).available) == (1, 1, 2)
    assert kinds([sell(new_purchase(item)) for _ in range(3)]) == {"Granted": 2, "SoldOut": 1}
    assert book(item).available == 0


def test_preload_counts_units_of_an_ended_ticket_again(stock, monkeypatch):
    monkeypatch.setattr(redis_counter, "TICKET", 0.0)
    item = stock(3)
    counter().load(item, Level(3, 1))
    admission = counter().admit(new_purchase(item))
    assert admission is not None
    assert admission.what == "granted"
    assert left(item) == 2
    client().delete(f"preload:{{{item}}}")
    counter().load(item, Level(3, 1))
    assert left(item) == 3


def test_preload_between_commit_and_settlement_counts_once(stock):
    """The load finds both the sale in the database and its ticket."""
    item = stock(10)
    counter().load(item, Level(10, 1))
    mine = new_purchase(item, quantity=2)
    counter().admit(mine)
    client().delete(f"preload:{{{item}}}")
    counter().load(item, Level(8, 2))
    assert left(item) == 6
    counter().settle(item, 2, [(mine, True)])
    assert left(item) == 8


def test_preload_keeps_a_newer_counter(stock):
    item = stock(10)
    counter().load(item, Level(8, 5))
    counter().load(item, Level(10, 1))
    assert left(item) == 8


def test_preload_sells_released_units_at_once(stock):
    item = stock(1)
    first = sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    release(first.reservation)
    assert isinstance(sell(new_purchase(item)), Granted)


def test_processes_share_the_counter_and_sell_exactly_the_stock(stock):
    item = stock(100)
    with workers(2) as shops:
        for shop in shops:
            shop.start([new_purchase(item) for _ in range(120)], threads=20)
        outcomes = sum((shop.kinds() for shop in shops), start=kinds([]))
    assert outcomes == {"Granted": 100, "SoldOut": 140}
    assert (book(item).available, left(item)) == (0, 0)
