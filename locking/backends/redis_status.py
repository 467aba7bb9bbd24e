"""Who holds a Redis lock and who waits for it, for operators; and who would wait for itself."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from math import inf
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, overload

from locking.backends.redis_lease import LEASES, Remote
from locking.backends.redis_protocol import Script, owners_in, text
from locking.terms import LockError

if TYPE_CHECKING:
    from locking.backends.redis import RedisLock
    from locking.backends.redis_async import AsyncRedisLock

STATUS = Script.load("status")


@dataclass(frozen=True, slots=True)
class LockStatus:
    """A lock at one moment.

    Attributes:
        owner: the holder's name, by default "host/process id"; None if the lock is free.
        token: the holder's fencing token; 0 if the lock is free, or its value is not a lock's.
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
        LockUnavailable: the server does not answer.
    """
    status: LockStatus | Awaitable[LockStatus] = lock.remote.read(STATUS, _status_in)
    return status


def _status_in(answer: tuple[bytes | str, int, list[bytes | str]]) -> LockStatus:
    value, remaining_ms, waiting = answer
    waiters = tuple(owners_in(waiting))
    if not value:
        return LockStatus(None, 0, 0.0, waiters)
    [owner], fence = owners_in([value]), text(value).partition(":")[0]
    token = int(fence) if fence.isdecimal() else 0
    return LockStatus(owner, token, max(remaining_ms, 0) / 1000, waiters)


def note_own_lease(remote: Remote, caller: object, timeout: float | None) -> str | None:
    """Return a note for a wait for a lease of the waiting thread or task; None if it has none.

    Raises LockError if that lease never ends and the wait has no limit.  A thread of a pool may
    wait for a lease of its own that others release: only a function that acquires again what it, or
    one that called it, has acquired is certain to wait forever.
    """
    for lease in [reference() for reference in list(LEASES.values())]:
        if lease is None or lease.acquirer() is not caller or lease.remaining() <= 0:
            continue
        its = lease._remote
        if its.keys == remote.keys and its.transport is remote.transport:
            why = (
                f"the caller itself holds {remote.name!r}: release it first, or, to acquire it "
                "again, use one handle that was made with reentrant=True and an owner"
            )
            never_ends = its.renewed and lease._max_until == inf
            if timeout is None and never_ends and _is_running(lease.asked_in):
                raise LockError(
                    f"{why}; this call would wait forever (give a timeout if another thread "
                    "or task releases the lease)"
                )
            return why
    return None


def _is_running(asked_in: tuple[int, CodeType] | None) -> bool:
    """Return whether a frame is among those of the calling thread."""
    frame: FrameType | None = sys._getframe()
    while asked_in is not None and frame is not None:
        if (id(frame), frame.f_code) == asked_in:
            return True
        frame = frame.f_back
    return asked_in is None
