"""The lessons' locks on real servers: each does what its text says it can."""

import inspect
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from course.judge import judge
from course.lesson import Lesson, find, lessons
from course.lessons.lesson_09_watchdog.lock import WatchdogLock
from course.lessons.lesson_10_redlock.lock import RedlockLock
from course.lessons.lesson_11_table_row.lock import TableRowLock, clean
from course.lessons.lesson_12_row_lock.lock import ForUpdateLock
from course.lessons.lesson_13_unique_index.lock import UniqueIndexGuard
from course.lessons.lesson_14_memcached_add.lock import MemcachedAddLock
from course.plan import redis_clients
from course.simulator.history import Wrong
from course.simulator.search import NotFound, search
from locking.tests.needs import needs
from locking.tests.other_servers import Memcached

FAST = 0.005
"""Seconds between two tries, so that tests do not wait for a second."""

BREAKS_BY_ITSELF = "getset-busy-loop"
"""Six threads break this lesson's lock without a fault."""


def one_at_a_time(make: Callable[[], Any], *, threads: int = 6, rounds: int = 5) -> None:
    """Let threads count without other protection: only the lock keeps the count right."""
    count = inside = 0
    errors: list[BaseException] = []

    def work() -> None:
        nonlocal count, inside
        try:
            for _ in range(rounds):
                lock = make()
                assert lock.acquire(30.0)
                inside += 1
                assert inside == 1, "two inside at once"
                seen = count
                time.sleep(0.001)
                count = seen + 1
                inside -= 1
                lock.release()
        except BaseException as error:
            errors.append(error)
            raise

    together(*[work] * threads)
    assert (count, errors) == (threads * rounds, [])


def together(*programs: Callable[[], None]) -> None:
    """Run programs in a thread each, until all have ended."""
    running = [threading.Thread(target=program) for program in programs]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def gives_up_when_taken(make: Callable[[], Any]) -> None:
    """Let one client hold the lock while another tries for a moment, and then again."""
    first, second = make(), make()
    assert first.acquire()
    assert not second.acquire(0.05)
    first.release()
    assert second.acquire(1.0)
    second.release()


def on_redis(lesson: Lesson) -> bool:
    return lesson.plan.clients is redis_clients


@pytest.mark.parametrize(
    "lesson", [each for each in lessons() if on_redis(each)], ids=lambda each: each.slug
)
def test_it_lets_one_in_at_a_time_and_gives_up_in_time(valkey, lesson):
    kind = lesson.lock()
    paces = "wait" in inspect.signature(kind).parameters
    make = partial(kind, valkey, "stock", **({"wait": FAST} if paces else {}))
    gives_up_when_taken(make)
    if lesson.slug != BREAKS_BY_ITSELF:
        one_at_a_time(make)
        assert valkey.get("stock") is None or valkey.ttl("stock") != -1


def test_lesson_9_keeps_the_lock_of_a_living_holder_and_can_be_entered_twice(valkey):
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


def test_lesson_11_lets_one_in_at_a_time_and_its_cleaner_deletes_what_is_old(connect):
    one_at_a_time(lambda: TableRowLock(connect(), "stock", wait=FAST), threads=4)
    connection = connect()
    TableRowLock(connection, "old").acquire()
    clean(connection, limit=-1.0)
    assert TableRowLock(connection, "old").acquire()


def test_lesson_12_lets_one_in_at_a_time_if_the_row_exists(connect):
    connect().execute("INSERT INTO lock_row VALUES ('row', 0) ON CONFLICT DO NOTHING")
    one_at_a_time(lambda: ForUpdateLock(connect(autocommit=False), "row"), threads=4)


def test_lesson_13_refunds_once_and_no_schedule_breaks_it(connect):
    results: list[bool] = []

    def refund() -> None:
        results.append(UniqueIndexGuard(connect()).refund("order-7", 999))

    together(*[refund] * 8)
    assert sorted(results) == [False] * 7 + [True]
    (scenario,) = find("unique-index").scenarios
    for wrong in Wrong:
        with pytest.raises(NotFound):
            search(scenario.experiment(), scenario.flaw.faults, wrong)


@needs(Memcached.need)
def test_lesson_14_lets_one_in_at_a_time():
    from pymemcache.client.base import Client

    with Memcached() as server:
        clients: list[Client] = []

        def make() -> MemcachedAddLock:
            clients.append(Client(server.endpoint))
            return MemcachedAddLock(clients[-1], "stock", wait=FAST)

        one_at_a_time(make, threads=4)
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("sorted(items)", "items", "A and B wait for each other's rows forever"),
        ("self.connection.rollback()", "self.connection.commit()", "the books do not balance"),
        ("self.connection.commit()\n        return True", "return True", "nobody can ever enter"),
    ],
)
def test_a_cart_of_lesson_18_that_is_half_right_is_caught(right, wrong, why):
    lesson = find("oversold-cart")
    source = lesson.solution.read_text()
    assert right in source
    assert why in judge(lesson, source.replace(right, wrong), "f.py").wrong
