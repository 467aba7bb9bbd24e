"""The compared locks, each used as its own documentation recommends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import hiredis
import redis
import redis.asyncio

from locking.backends._sockets import watch
from locking.backends.redis_transport import Spinner

BATON_WAIT = 0.5  # s; after which a process checks whether the time is over
LEASE = 10  # s; far longer than a process holds the lock here


class Contender(Protocol):
    """One process's handle of one lock."""

    def acquire(self) -> bool | None:
        """Wait until this process has the lock; return False if it did not get it."""

    def release(self) -> None:
        """Release the lock."""


class AsyncContender:
    """One process's handle of an asyncio lock, with the event loop of its connections."""

    def __init__(self) -> None:
        """Make the loop."""
        self.loop = asyncio.new_event_loop()

    def acquire(self) -> Awaitable[object]:
        """See `Contender`."""
        raise NotImplementedError

    def release(self) -> Awaitable[object]:
        """See `Contender`."""
        raise NotImplementedError


class Ours:
    """`locking.backends.redis.RedisLock` with its defaults: fair, with renewal."""

    def __init__(self, url: str, name: str, lease: int, *, fair: bool = True) -> None:
        """Connect as the package recommends."""
        from locking.backends.redis import RedisLock
        from locking.redis_client import connect

        self._lock = RedisLock(connect(url), name, lease=lease, fair=fair)

    def acquire(self) -> None:
        """See `Contender`."""
        self._lease = self._lock.acquire()

    def release(self) -> None:
        """See `Contender`."""
        self._lease.release()


class OursAsync(AsyncContender):
    """`locking.backends.redis_async.AsyncRedisLock` with its defaults."""

    def __init__(self, url: str, name: str, lease: int) -> None:
        """Connect as the package recommends."""
        from locking.backends.redis_async import AsyncRedisLock
        from locking.redis_client import connect_async

        super().__init__()
        self._lock = AsyncRedisLock(connect_async(url), name, lease=lease)

    def acquire(self) -> Awaitable[object]:
        """See `Contender`."""
        return self._lock.acquire()

    def release(self) -> Awaitable[object]:
        """See `Contender`."""
        return self._lock.release()


class RedisPyAsync(AsyncContender):
    """redis-py's `Lock` for asyncio, with its default polling interval of 0.1 s."""

    def __init__(self, url: str, name: str, lease: int) -> None:
        """Connect, and make the handle."""
        super().__init__()
        self._lock = redis.asyncio.Redis.from_url(url).lock(name, timeout=lease)

    def acquire(self) -> Awaitable[object]:
        """See `Contender`."""
        return self._lock.acquire()

    def release(self) -> Awaitable[object]:
        """See `Contender`."""
        return self._lock.release()


class RedisPy:
    """redis-py's `Lock`; `sleep` is its polling interval, 0.1 s by default."""

    def __init__(self, url: str, name: str, lease: int, *, sleep: float = 0.1) -> None:
        """Connect, and make the handle."""
        self._lock = redis.Redis.from_url(url).lock(name, timeout=lease, sleep=sleep)

    def acquire(self) -> None:
        """See `Contender`."""
        self._lock.acquire()

    def release(self) -> None:
        """See `Contender`."""
        self._lock.release()


class PythonRedisLock:
    """python-redis-lock: a signal list that all waiters pop."""

    def __init__(self, url: str, name: str, lease: int) -> None:
        """Connect, and make the handle."""
        import redis_lock

        # A blocking pop outlasts redis-py's own time-out for sockets.
        client = redis.Redis.from_url(url, socket_timeout=None)
        self._lock = redis_lock.Lock(client, name, expire=lease)

    def acquire(self) -> None:
        """See `Contender`."""
        self._lock.acquire()

    def release(self) -> None:
        """See `Contender`."""
        self._lock.release()


class Pottery:
    """pottery's Redlock, on one server here like all the others."""

    def __init__(self, url: str, name: str, lease: int) -> None:
        """Connect, and make the handle."""
        from pottery import Redlock

        client = redis.Redis.from_url(url)
        self._lock = Redlock(key=name, masters={client}, auto_release_time=lease)

    def acquire(self) -> None:
        """See `Contender`."""
        if not self._lock.acquire():
            raise RuntimeError("pottery gave up")

    def release(self) -> None:
        """See `Contender`."""
        self._lock.release()


class Portalocker:
    """portalocker's Redis lock: held by a subscription, so it has no lease."""

    def __init__(self, url: str, name: str, lease: int) -> None:
        """Connect, and make the handle."""
        import portalocker

        client = redis.Redis.from_url(url, health_check_interval=10)
        self._lock = portalocker.RedisLock(name, connection=client, timeout=120)

    def acquire(self) -> None:
        """See `Contender`."""
        self._lock.acquire()

    def release(self) -> None:
        """See `Contender`."""
        self._lock.release()


class Ceiling:
    """The upper limit: only the two round trips that every lock needs, without a lock.

    A single process sets and deletes a key.  Several processes pop a baton from their own list and
    push it to the next one's: the cheapest hand-over through Redis.  It waits for answers and spins
    as our lock does, so that no lock can exceed it.
    """

    def __init__(self, url: str, name: str, lease: int, *, place: int = 0, of: int = 1) -> None:
        """Connect; process number `place` of `of`."""
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname or "", address.port or 6379))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._spinner = Spinner(watch(self._socket.fileno()))
        self._blocks = of > 1
        self._first: tuple[str, ...] = ("SET", name, "1")
        self._second: tuple[str, ...] = ("DEL", name)
        if of > 1:
            self._first = ("BLPOP", f"{name}:{place}", str(BATON_WAIT))
            self._second = ("RPUSH", f"{name}:{(place + 1) % of}", "1")

    def _ask(self, command: tuple[Any, ...]) -> Any:
        self._socket.sendall(hiredis.pack_command(command))
        self._spinner.spin()
        while (answer := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65536))
        return answer

    def acquire(self) -> bool:
        """See `Contender`; return False if a stopped process has the baton."""
        if self._blocks:
            self._spinner.suspend()
        return self._ask(self._first) is not None

    def release(self) -> None:
        """See `Contender`."""
        self._ask(self._second)


def unfair(url: str, name: str, lease: int) -> Contender:
    """Return our lock in unfair mode, without a queue."""
    return Ours(url, name, lease, fair=False)


def polling(url: str, name: str, lease: int) -> Contender:
    """Return redis-py's lock, polling every millisecond."""
    return RedisPy(url, name, lease, sleep=0.001)


OURS, CEILING = "locking", "ceiling (raw round trips)"

CONTENDERS: dict[str, Callable[..., Contender | AsyncContender]] = {
    OURS: Ours,
    "locking, unfair": unfair,
    "locking, asyncio": OursAsync,
    "redis-py": RedisPy,
    "redis-py, asyncio": RedisPyAsync,
    "redis-py, 1 ms polling": polling,
    "python-redis-lock": PythonRedisLock,
    "pottery Redlock": Pottery,
    "portalocker": Portalocker,
    CEILING: Ceiling,
}
