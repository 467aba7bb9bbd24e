"""Who holds an exclusive Redis lock, and who waits for it: for operators' pages and commands."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, overload

from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_core import RedisHandle
from locking.backends.redis_protocol import Script
from locking.backends.redis_steps import Steps, text
from locking.base import LockUnsupported

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
    if lock.kind != RedisHandle.kind:
        raise LockUnsupported(f"the status of a {type(lock).__name__} cannot be read")
    status: LockStatus | Awaitable[LockStatus] = lock.remote.perform(_reading(lock))
    return status


def _reading(lock: RedisHandle) -> Steps[LockStatus]:
    value, remaining_ms, waiting = yield from lock.remote.ask(STATUS)
    waiters = tuple(_owner(waiter) for waiter in waiting)
    if not value:
        return LockStatus(None, 0, 0.0, waiters)
    fence = text(value).partition(":")[0]
    return LockStatus(_owner(value), int(fence), max(remaining_ms, 0) / 1000, waiters)


def _owner(value: bytes | str) -> str:
    """Return the owner in "fence:token:owner" of a holder or "mode:token:owner" of a waiter."""
    return text(value).split(":", 2)[-1]
