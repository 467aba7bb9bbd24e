"""Redis locks with several concurrent holders: a read/write lock and a semaphore.

Both use one queue in which no waiter overtakes another, so a stream of readers cannot starve a
writer.  Leases, fencing tokens, renewal and wake-ups are those of `RedisLock`.
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
    """The read lock of a `RedisReadWriteLock`: excludes writers only."""

    kind = "rw"
    role = "r"


class RedisWriteLock(_SharedLock):
    """The write lock of a `RedisReadWriteLock`: excludes readers and writers."""

    kind = "rw"
    role = "w"


class RedisReadWriteLock:
    """A pair of locks for many readers or one writer.  Parameters are those of `RedisLock`.

    Release the read lock before you acquire the write lock; otherwise the thread waits for itself.
    """

    def __init__(
        self, client: Redis | RedisCluster | Transport, name: str, **settings: Any
    ) -> None:
        self.read = RedisReadLock(client, name, **settings)
        self.write = RedisWriteLock(client, name, **settings)


class RedisSemaphore(_SharedLock):
    """A semaphore with at most `permits` holders; a thread may take several, one per acquire.

    All handles of a name must use the same number of permits.  Other parameters are those of
    `RedisLock`.
    """

    kind = "semaphore"
    capabilities = replace(RedisLock.capabilities, reentrant=False)

    def __init__(
        self, client: Redis | RedisCluster | Transport, name: str, permits: int, **settings: Any
    ) -> None:
        if permits < 1:
            raise ValueError(f"a semaphore needs at least one permit, not {permits}")
        super().__init__(client, name, **settings)
        self.role = f"s{permits}"
