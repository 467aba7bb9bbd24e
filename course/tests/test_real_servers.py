"""The lessons' locks on real servers: each does what its text says it can."""

import inspect
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest

from course.lesson import find, lessons
from course.lessons.lesson_09_watchdog.lock import WatchdogLock
from course.lessons.lesson_10_redlock.lock import RedlockLock
from course.lessons.lesson_11_table_row.lock import TableRowLock, clean
from course.lessons.lesson_12_row_lock.lock import ForUpdateLock
from course.lessons.lesson_13_unique_index.lock import UniqueIndexGuard
from course.lessons.lesson_14_memcached_add.lock import MemcachedAddLock
from course.plan import redis_clients
from development.needs import needs
from development.servers import Memcached
from locking.tests.helpers import Task

FAST = 0.005
"""Seconds between two tries, so that tests do not wait for a second."""

BREAK_BY_THEMSELVES = ("setnx-ttl-repair", "getset-busy-loop")
"""Six threads break these lessons' locks without a fault."""

ON_REDIS = [each for each in lessons() if each.plan.clients is redis_clients]


def one_at_a_time(make: Callable[[], Any], *, threads: int = 6) -> None:
    """Let threads count without other protection: only the lock keeps the count right."""
    count = inside = 0

    def work() -> None:
        nonlocal count, inside
        for _ in range(5):
            lock = make()
            assert lock.acquire(30.0)
            inside += 1
            assert inside == 1, "two inside at once"
            seen = count
            time.sleep(0.001)
            count = seen + 1
            inside -= 1
            lock.release()

    for task in [Task(work) for _ in range(threads)]:
        task.result()
    assert count == threads * 5


def gives_up_when_taken(make: Callable[[], Any]) -> None:
    """Let one client hold the lock while another tries for a moment, and then again."""
    first, second = make(), make()
    assert first.acquire()
    assert not second.acquire(0.05)
    first.release()
    assert second.acquire(1.0)
    second.release()


@pytest.mark.parametrize("lesson", ON_REDIS, ids=lambda each: each.slug)
def test_lock_of_a_lesson_lets_one_in_at_a_time_on_a_real_server(valkey, lesson):
    kind = lesson.lock()
    paces = "wait" in inspect.signature(kind).parameters
    make = partial(kind, valkey, "stock", **({"wait": FAST} if paces else {}))
    gives_up_when_taken(make)
    if lesson.slug not in BREAK_BY_THEMSELVES:
        one_at_a_time(make)
        assert valkey.get("stock") is None or valkey.ttl("stock") != -1


def test_lesson_9_keeps_a_living_holders_lock_and_is_reentrant(valkey):
    lock, other = WatchdogLock(valkey, "stock", lease=0.3), WatchdogLock(valkey, "stock")
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    assert not other.acquire(0.7), "longer than two leases"
    lock.release()
    assert other.acquire(1.0)
    other.release()


def test_lesson_10_works_on_one_server_too(valkey):
    make = partial(RedlockLock, [valkey], "stock", wait=FAST)
    one_at_a_time(make)
    gives_up_when_taken(make)


def test_lesson_11_lets_one_in_and_its_cleaner_deletes_old_rows(connect):
    one_at_a_time(lambda: TableRowLock(connect(), "stock", wait=FAST), threads=4)
    connection = connect()
    TableRowLock(connection, "old").acquire()
    clean(connection, limit=-1.0)
    assert TableRowLock(connection, "old").acquire()


def test_lesson_12_lets_one_in_at_a_time_if_the_row_exists(connect):
    connect().execute("INSERT INTO lock_row VALUES ('row', 0) ON CONFLICT DO NOTHING")
    one_at_a_time(lambda: ForUpdateLock(connect(autocommit=False), "row"), threads=4)


def test_lesson_13_refunds_once(connect):
    refunds = [Task(lambda: UniqueIndexGuard(connect()).refund("order-7", 999)) for _ in range(8)]
    assert sorted(refund.result() for refund in refunds) == [False] * 7 + [True]


@needs(Memcached.need)
def test_lesson_14_lets_one_in_at_a_time():
    from pymemcache.client.base import Client

    with Memcached() as server, ExitStack() as clients:

        def make() -> MemcachedAddLock:
            client = clients.enter_context(closing(Client(server.endpoint)))
            return MemcachedAddLock(client, "stock", wait=FAST)

        one_at_a_time(make, threads=4)


@pytest.mark.parametrize("name", ["lock", "cure"])
def test_lesson_18_sells_on_a_real_server_what_there_is(connect, name):
    connection = connect()
    connection.execute("CREATE TEMPORARY TABLE stock (item text PRIMARY KEY, available integer)")
    connection.execute("INSERT INTO stock VALUES ('lamp', 2), ('mug', 1)")
    connection.autocommit = False
    cart = find("oversold-cart").lock(name)(connection)
    assert [cart.buy({"mug": 1, "lamp": 1}) for _ in range(2)] == [True, False]
    left = connection.execute("SELECT item, available FROM stock ORDER BY item").fetchall()
    assert left == [("lamp", 1), ("mug", 0)]
