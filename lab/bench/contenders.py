"""The compared locks, each used as its own documentation recommends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis
import redis.asyncio

from locking.redis_client import connect, connect_async
from locking.redis_lock import RedisLease, RedisLock
from locking.redis_lock_async import AsyncRedisLease, AsyncRedisLock

BATON_WAIT = 0.5  # s; after which a process checks whether the time is over
LEASE = 10  # s; far longer than a process holds the lock here


class Contender(NamedTuple):
    """One process's handle of one lock.

    Attributes:
        acquire: waits until this process has the lock; returns False if it did not get it.
        release: releases the lock.
        loop: the event loop of an asyncio lock, whose two functions are to be awaited.
    """

    acquire: Callable[[], Any]
    release: Callable[[], Any]
    loop: asyncio.AbstractEventLoop | None = None


def ours(url: str, name: str, lease: int, *, fair: bool = True) -> Contender:
    """Return our lock with its defaults, fair and with renewal; or unfair, without a queue."""
    lock = RedisLock(connect(url), name, lease=lease, fair=fair)
    held: list[RedisLease] = []
    return Contender(lambda: held.append(lock.acquire()), lambda: held.pop().release())


def ours_async(url: str, name: str, lease: int) -> Contender:
    """Return our lock for asyncio with its defaults."""
    loop = asyncio.new_event_loop()
    lock = AsyncRedisLock(connect_async(url), name, lease=lease)
    held: list[AsyncRedisLease] = []

    async def acquire() -> None:
        held.append(await lock.acquire())

    async def release() -> None:
        await held.pop().release()

    return Contender(acquire, release, loop)


def redis_py(url: str, name: str, lease: int, *, sleep: float = 0.1) -> Contender:
    """Return redis-py's lock; `sleep` is its polling interval in seconds, 0.1 by default."""
    lock = redis.Redis.from_url(url).lock(name, timeout=lease, sleep=sleep)
    return Contender(lock.acquire, lock.release)


def redis_py_async(url: str, name: str, lease: int) -> Contender:
    """Return redis-py's lock for asyncio, with its default polling interval of 0.1 s."""
    loop = asyncio.new_event_loop()
    lock = redis.asyncio.Redis.from_url(url).lock(name, timeout=lease)
    return Contender(lock.acquire, lock.release, loop)


def python_redis_lock(url: str, name: str, lease: int) -> Contender:
    """Return python-redis-lock's lock: a signal list that all waiters pop."""
    import redis_lock

    # A blocking pop outlasts redis-py's own time-out for sockets.
    client = redis.Redis.from_url(url, socket_timeout=None)
    lock = redis_lock.Lock(client, name, expire=lease)
    return Contender(lock.acquire, lock.release)


def pottery(url: str, name: str, lease: int) -> Contender:
    """Return pottery's Redlock, on one server here like all the others."""
    from pottery import Redlock

    client = redis.Redis.from_url(url)
    lock = Redlock(key=name, masters={client}, auto_release_time=lease)

    def acquire() -> None:
        if not lock.acquire():
            raise RuntimeError("pottery gave up")

    return Contender(acquire, lock.release)


def portalocker(url: str, name: str, lease: int) -> Contender:
    """Return portalocker's Redis lock: held by a subscription, so it has no lease."""
    from portalocker import RedisLock

    client = redis.Redis.from_url(url, health_check_interval=10)
    lock = RedisLock(name, connection=client, timeout=120)
    return Contender(lock.acquire, lock.release)


class Ceiling:
    """The upper limit: only the two round trips that every lock needs, without a lock.

    A single process sets and deletes a key.  Several processes pop a baton from their own list and
    push it to the next one's: the cheapest hand-over through Redis.
    """

    loop = None

    def __init__(self, url: str, name: str, lease: int, *, place: int = 0, of: int = 1) -> None:
        """Connect; process number `place` of `of`."""
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname or "", address.port or 6379))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._first: tuple[str, ...] = ("SET", name, "1")
        self._second: tuple[str, ...] = ("DEL", name)
        if of > 1:
            self._first = ("BLPOP", f"{name}:{place}", str(BATON_WAIT))
            self._second = ("RPUSH", f"{name}:{(place + 1) % of}", "1")

    def _ask(self, command: tuple[Any, ...]) -> Any:
        words = [word.encode() for word in command]
        self._socket.sendall(
            b"*%d\r\n" % len(words)
            + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        )
        answer = self._socket.recv(65536)
        # A popped list and its element are an array of two words: five lines.
        while answer.count(b"\r\n") < (5 if answer.startswith(b"*2") else 1):
            answer += self._socket.recv(65536)
        return None if answer == b"*-1\r\n" else answer

    def acquire(self) -> bool:
        """See `Contender`; return False if a stopped process has the baton."""
        return self._ask(self._first) is not None

    def release(self) -> None:
        """See `Contender`."""
        self._ask(self._second)


OURS, CEILING = "locking", "ceiling (raw round trips)"

CONTENDERS: dict[str, Callable[..., Contender | Ceiling]] = {
    OURS: ours,
    "locking, unfair": partial(ours, fair=False),
    "locking, asyncio": ours_async,
    "redis-py": redis_py,
    "redis-py, asyncio": redis_py_async,
    "redis-py, 1 ms polling": partial(redis_py, sleep=0.001),
    "python-redis-lock": python_redis_lock,
    "pottery Redlock": pottery,
    "portalocker": portalocker,
    CEILING: Ceiling,
}
