"""What kazoo's own tests of its locks are about, case by case in our words, and what ours does.

Read in `kazoo/tests/test_lock.py` of kazoo 2.11; nothing is copied.  kazoo's locks are on
ZooKeeper, so they have a table of their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import redis
from kazoo.client import KazooClient

from course.tests.peers.adapters import outcome
from locking.backends.redis import RedisLock
from locking.backends.redis_shared import RedisReadWriteLock, RedisSemaphore
from locking.tests.helpers import Task, eventually


class Side(Protocol):
    """One of the two libraries, on a name of its own."""

    def lock(self, owner: str = "me") -> Any: ...

    def reader(self) -> Any: ...

    def writer(self) -> Any: ...

    def semaphore(self, permits: int) -> Any: ...

    def waiting(self, handle: Any) -> int:
        """Return how many clients wait."""

    def names(self, lock: Any) -> str:
        """Return the names that the library tells of the holder and of those who wait."""

    def take_away(self, lock: Any) -> None:
        """Let the lock be lost without its holder."""


class Ours:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def lock(self, owner: str = "me") -> Any:
        return RedisLock(self._client, "phone", owner=owner)

    def reader(self) -> Any:
        return RedisReadWriteLock(self._client, "phone").read

    def writer(self) -> Any:
        return RedisReadWriteLock(self._client, "phone").write

    def semaphore(self, permits: int) -> Any:
        return RedisSemaphore(self._client, "phone", permits)

    def waiting(self, handle: Any) -> int:
        return int(handle.waiters())

    def names(self, lock: Any) -> str:
        return f"{lock.owner()} and {lock.waiters()} more"

    def take_away(self, lock: Any) -> None:
        self._client.flushall()


class Kazoo:
    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._path = f"/{uuid.uuid4().hex}"

    def lock(self, owner: str = "me") -> Any:
        return self._client.Lock(self._path, owner)

    def reader(self) -> Any:
        return self._client.ReadLock(self._path, "reader")

    def writer(self) -> Any:
        return self._client.WriteLock(self._path, "writer")

    def semaphore(self, permits: int) -> Any:
        return self._client.Semaphore(self._path, "me", max_leases=permits)

    def waiting(self, handle: Any) -> int:
        return len(self._client.get_children(self._path)) - 1

    def names(self, lock: Any) -> str:
        return " and ".join(lock.contenders())

    def take_away(self, lock: Any) -> None:
        for node in self._client.get_children(self._path):
            self._client.delete(f"{self._path}/{node}")


@dataclass(frozen=True, slots=True)
class KazooCase:
    """A case: what is done, what it comes to for each library, and why ours differs."""

    what: str
    play: Callable[[Side], str]
    ours: str
    kazoo: str
    why: str = ""


def one_try(side: Side) -> str:
    side.lock().acquire()
    return str(Task(lambda: outcome(lambda: side.lock().acquire(blocking=False))).result())


def in_vain(side: Side) -> str:
    side.lock().acquire()
    return str(Task(lambda: outcome(lambda: side.lock().acquire(timeout=0.5))).result())


def in_vain_and_gone(side: Side) -> str:
    """A waiter that gave up must not hold up those behind it."""
    held = side.lock()
    held.acquire()
    Task(lambda: outcome(lambda: side.lock().acquire(timeout=0.2))).result()
    held.release()
    return str(Task(lambda: outcome(lambda: side.lock().acquire(timeout=5))).result())


def order(side: Side) -> str:
    held, entered = side.lock(), list[str]()
    held.acquire()

    def enter(name: str) -> None:
        with side.lock(name):
            entered.append(name)

    tasks = []
    for number, name in enumerate("abc", start=1):
        tasks.append(Task(enter, name))
        eventually(partial(_waits, side, held, number))
    held.release()
    for task in tasks:
        task.result()
    return "".join(entered)


def _waits(side: Side, held: Any, number: int) -> bool:
    return side.waiting(held) == number


def who(side: Side) -> str:
    held = side.lock("one")
    held.acquire()
    waiter = Task(lambda: side.lock("two").acquire(timeout=20).__class__)
    eventually(lambda: side.waiting(held) == 1)
    names = side.names(held)
    held.release()
    waiter.result()
    return names


def release_without(side: Side) -> str:
    return outcome(side.lock().release)


def release_twice(side: Side) -> str:
    lock = side.lock()
    lock.acquire()
    lock.release()
    return outcome(lock.release)


def again(side: Side) -> str:
    lock = side.lock()
    lock.acquire()
    return outcome(lambda: lock.acquire(blocking=False))


def lost(side: Side) -> str:
    lock = side.lock()
    lock.acquire()
    side.take_away(lock)
    return outcome(lock.release)


def fails(side: Side) -> str:
    def body() -> None:
        with side.lock():
            raise ZeroDivisionError

    return f"{outcome(body)}, then {outcome(lambda: side.lock().acquire(timeout=5))}"


def readers(side: Side) -> str:
    side.reader().acquire()
    together = Task(lambda: outcome(lambda: side.reader().acquire(timeout=5))).result()
    return (
        f"{together}, {Task(lambda: outcome(lambda: side.writer().acquire(timeout=0.5))).result()}"
    )


def reader_behind_a_writer(side: Side) -> str:
    held = side.reader()
    held.acquire()
    writer = Task(lambda: outcome(lambda: side.writer().acquire(timeout=20)))
    eventually(lambda: side.waiting(held) == 1)
    late = Task(lambda: outcome(lambda: side.reader().acquire(timeout=0.5))).result()
    held.release()
    return f"reader {late}, writer {writer.result()}"


def permits(side: Side) -> str:
    first = side.semaphore(2)
    first.acquire()
    side.semaphore(2).acquire()
    third = Task(lambda: outcome(lambda: side.semaphore(2).acquire(timeout=0.5))).result()
    first.release()
    after = Task(lambda: outcome(lambda: side.semaphore(2).acquire(timeout=5))).result()
    return f"{third}, then {after}"


def other_permits(side: Side) -> str:
    side.semaphore(2).acquire()
    return outcome(lambda: side.semaphore(3).acquire(timeout=1))


EXCEPTIONS = "an error cannot be overlooked as an ignored result can"

KAZOO_CASES = (
    KazooCase("one try at a held lock", one_try, "LockTimeout", "False", EXCEPTIONS),
    KazooCase("wait in vain", in_vain, "LockTimeout", "LockTimeout"),
    KazooCase("acquire when a waiter in front has given up", in_vain_and_gone, "acquired", "True"),
    KazooCase("three waiters, in order of arrival", order, "abc", "abc"),
    KazooCase(
        "who holds it, and who waits",
        who,
        "one and 1 more",
        "one and two",
        "waiters are counted, not named: a name would cost each of them space on the server",
    ),
    KazooCase("release without acquire", release_without, "LockNotHeld", "False", EXCEPTIONS),
    KazooCase("release a second time", release_twice, "LockNotHeld", "False", EXCEPTIONS),
    KazooCase(
        "one try by the same handle again",
        again,
        "LockTimeout",
        "False",
        "an error cannot be overlooked as an ignored result can",
    ),
    KazooCase(
        "release a lock that was taken away",
        lost,
        "LockLost",
        "True",
        "the holder worked without the lock, and must learn it",
    ),
    KazooCase(
        "the body of `with` raises",
        fails,
        "ZeroDivisionError, then acquired",
        "ZeroDivisionError, then True",
    ),
    KazooCase(
        "a second reader, then a writer", readers, "acquired, LockTimeout", "True, LockTimeout"
    ),
    KazooCase(
        "a reader behind a waiting writer",
        reader_behind_a_writer,
        "reader LockTimeout, writer acquired",
        "reader LockTimeout, writer True",
    ),
    KazooCase(
        "a third holder of two permits",
        permits,
        "LockTimeout, then acquired",
        "LockTimeout, then True",
    ),
    KazooCase("handles with other permits", other_permits, "LockError", "ValueError"),
)
