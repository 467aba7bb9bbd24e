"""Redis locks with several concurrent holders: a read/write lock and a semaphore.

Both use one queue in which no waiter overtakes another, so a stream of readers cannot starve a
writer.  Leases, fencing tokens, renewal and wake-ups are those of `RedisLock` and `AsyncRedisLock`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from locking.backends.redis import RedisLease, RedisLock
from locking.backends.redis_async import AsyncRedisLease, AsyncRedisLock
from locking.backends.redis_core import RedisHandle, RedisLockSettings
from locking.backends.redis_protocol import SHARED, Script
from locking.leases import checked

PERMITS = Script.load("shared_permits")


class _Shared(RedisHandle):
    scripts = SHARED
    always_fair = True


class _Read(_Shared):
    kind = "rw"
    role = "r-"
    resumes = ("r-", "w-")  # a write lease that becomes one of reading


class _Write(_Shared):
    kind = "rw"
    role = "w-"
    strength = 2  # excludes what the read lock excludes


class _Semaphore(_Shared):
    kind = "semaphore"
    several = True
    capabilities = replace(RedisHandle.capabilities, reentrant=False)

    def __init__(
        self,
        client: Any,
        name: str,
        permits: int,
        *,
        take: int = 1,
        **settings: Unpack[RedisLockSettings],
    ) -> None:
        if not 1 <= checked("take", take, int, "a whole number") <= _at_least_one(permits):
            raise ValueError(f"an acquire takes from 1 to all {permits} permits, not {take}")
        super().__init__(client, name, **settings)
        self.permits = permits
        self.take = self.strength = take
        self.role = f"s{permits}-" if take == 1 else f"s{permits}x{take}-"

    def available(self) -> Any:
        """Return how many permits are free; an asyncio handle returns what to await."""
        return self.remote.read(PERMITS, _free, str(self.permits), "")

    def resize(self, permits: int) -> Any:
        """Change the number of permits for all handles of the name; return how many are free.

        If more are taken, nobody loses one: none is granted until enough have come back.  The
        number holds until the next `resize`.
        """
        words = str(self.permits), str(_at_least_one(permits))
        return self.remote.read(PERMITS, _free, *words)


def _at_least_one(permits: int) -> int:
    if checked("permits", permits, int, "a whole number") < 1:
        raise ValueError(f"a semaphore needs at least one permit, not {permits}")
    return permits


def _free(answer: tuple[int, int]) -> int:
    permits, taken = answer
    return max(0, permits - taken)


class RedisReadLock(_Read, RedisLock):
    """The read lock of a `RedisReadWriteLock`: excludes writers only."""


class RedisWriteLock(_Write, RedisLock):
    """The write lock of a `RedisReadWriteLock`: excludes readers and writers."""


class RedisReadWriteLock:
    """A pair of locks for many readers or one writer.  Parameters are those of `RedisLock`.

    Release the read lock before you acquire the write lock, and the other way round: a thread that
    holds one and waits for the other waits for itself, which without a time-out raises LockError.
    """

    def __init__(self, client: Any, name: str, **settings: Unpack[RedisLockSettings]) -> None:
        self.read = RedisReadLock(client, name, **settings)
        self.write = RedisWriteLock(client, name, **settings)

    def downgrade(self, lease: RedisLease) -> RedisLease:
        """Turn a write lease into a read lease with its token, without a gap; return that.

        Raises as `Lease.resume`.
        """
        return self.read.resume(lease.hand_on())


class RedisSemaphore(_Semaphore, RedisLock):
    """A semaphore of `permits` permits, of which each acquire takes `take` at once, 1 by default.

    The permits of one acquire come together or not at all, and a waiter for many is not overtaken
    by waiters for few.  A thread may acquire several times.  All handles of a name must use the
    same number of permits, unless `resize` changes it: acquire raises LockError if the holders have
    another.  Other parameters
    are those of `RedisLock`.
    """


class AsyncRedisReadLock(_Read, AsyncRedisLock):
    """The read lock of an `AsyncRedisReadWriteLock`: excludes writers only."""


class AsyncRedisWriteLock(_Write, AsyncRedisLock):
    """The write lock of an `AsyncRedisReadWriteLock`: excludes readers and writers."""


class AsyncRedisReadWriteLock:
    """The asyncio version of `RedisReadWriteLock`; both kinds exclude each other."""

    def __init__(self, client: Any, name: str, **settings: Unpack[RedisLockSettings]) -> None:
        self.read = AsyncRedisReadLock(client, name, **settings)
        self.write = AsyncRedisWriteLock(client, name, **settings)

    async def downgrade(self, lease: AsyncRedisLease) -> AsyncRedisLease:
        """See `RedisReadWriteLock.downgrade`."""
        return await self.read.resume(lease.hand_on())


class AsyncRedisSemaphore(_Semaphore, AsyncRedisLock):
    """The asyncio version of `RedisSemaphore`; both kinds share the permits."""
