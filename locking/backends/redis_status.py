"""Who holds a Redis lock, and who waits for it: for operators' pages and commands."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from locking.backends.redis_protocol import MUTEX, Script, owners_in, text
from locking.terms import LockUnsupported

if TYPE_CHECKING:
    from locking.backends.redis import RedisLock
    from locking.backends.redis_async import AsyncRedisLock

STATUS = Script.load("status")


@dataclass(frozen=True, slots=True)
class LockStatus:
    """A lock at one moment.

    Attributes:
        owner: the holder's name, by default "host/process id"; None if the lock is free.
        token: the holder's fencing token; 0 if the lock is free.
        remaining: seconds until the holder's lease expires, unless it is renewed.
        waiters: names of the live clients in the queue, the next holder first.
    """

    owner: str | None
    token: int
    remaining: float
    waiters: tuple[str, ...]


@overload
def status_of(lock: RedisLock) -> LockStatus: ...
@overload
def status_of(lock: AsyncRedisLock) -> Awaitable[LockStatus]: ...
def status_of(lock: Any) -> LockStatus | Awaitable[LockStatus]:
    """Return the state of a lock, read in one command; await it of an asyncio lock.

    Raises:
        LockUnsupported: the lock is shared.
        LockUnavailable: the server does not answer.
    """
    if lock.scripts is not MUTEX:
        raise LockUnsupported(f"the status of a {type(lock).__name__} cannot be read")
    status: LockStatus | Awaitable[LockStatus] = lock.remote.read(STATUS, _status_in)
    return status


def _status_in(answer: tuple[bytes | str, int, list[bytes | str]]) -> LockStatus:
    value, remaining_ms, waiting = answer
    waiters = tuple(owners_in(waiting))
    if not value:
        return LockStatus(None, 0, 0.0, waiters)
    [owner], fence = owners_in([value]), text(value).partition(":")[0]
    return LockStatus(owner, int(fence), max(remaining_ms, 0) / 1000, waiters)
