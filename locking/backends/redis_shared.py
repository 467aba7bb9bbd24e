"""Redis locks that several may hold at once: a read/write lock and a semaphore.

Both are a gate with one queue: who comes later never passes who waits in front, so a stream of
readers cannot starve a writer.  Leases, fences, renewal and wake-ups are those of `RedisLock`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from redis import Redis, RedisCluster

from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import SHARED
from locking.backends.redis_transport import Transport


class _SharedLock(RedisLock):
    scripts = SHARED
    role = ""

    def new_holder(self) -> str:
        return f"{self.role}-{super().new_holder()}"


class RedisReadLock(_SharedLock):
    """The reading half of a `RedisReadWriteLock`: excludes writers only."""

    kind = "rw"
    role = "r"


class RedisWriteLock(_SharedLock):
    """The writing half of a `RedisReadWriteLock`: excludes everybody."""

    kind = "rw"
    role = "w"


class RedisReadWriteLock:
    """Many readers or one writer; each half is a lock of its own.

    Reading must not be upgraded to writing while the read lock is held: like any two clients that
    try that at once, the thread would wait for itself.  Parameters are those of `RedisLock`.
    """

    def __init__(
        self, client: Redis | RedisCluster | Transport, name: str, **settings: Any
    ) -> None:
        self.read = RedisReadLock(client, name, **settings)
        self.write = RedisWriteLock(client, name, **settings)


class RedisSemaphore(_SharedLock):
    """At most `permits` holders at once; a thread may take several permits, one an acquire.

    All handles of a name must state the same number of permits.  Other parameters are those of
    `RedisLock`.
    """

    kind = "semaphore"
    capabilities = replace(RedisLock.capabilities, reentrant=False)

    def __init__(
        self, client: Redis | RedisCluster | Transport, name: str, permits: int, **settings: Any
    ) -> None:
        if permits < 1:
            raise ValueError(f"{permits} permits let nobody in")
        super().__init__(client, name, **settings)
        self.role = f"s{permits}"
