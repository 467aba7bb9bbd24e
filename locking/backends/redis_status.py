"""Who holds a Redis lock, and who waits for it: for operators' pages and commands."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from locking.backends.redis_protocol import MUTEX, Script, Scripts, Steps, owners_in, text
from locking.base import Handle
from locking.terms import LockUnsupported

if TYPE_CHECKING:
    from locking.backends.redis import RedisLock
    from locking.backends.redis_async import AsyncRedisLock

logger = logging.getLogger(__name__)

STATUS = Script.load("status")


class Inspected(Handle):
    """The questions and commands of operators to a lock.

    A blocking handle answers them, an asyncio handle returns what to await.
    """

    scripts: Scripts
    remote: Any

    def owned(self) -> Any:
        """Return whether this thread or task holds the lock, according to the server."""
        return self.remote.perform(self._owning(self._caller()))

    def locked(self) -> Any:
        """Return whether any client holds the lock."""
        return self.remote.read(self.scripts.owner, bool)

    def owner(self) -> Any:
        """Return the name of the holder; None if the lock is free."""
        return self.remote.read(self.scripts.owner, lambda held: next(iter(owners_in(held)), None))

    def owners(self) -> Any:
        """Return the names of all holders: more than one for a shared lock."""
        return self.remote.read(self.scripts.owner, owners_in)

    def waiters(self) -> Any:
        """Return how many live clients wait for the lock."""
        return self.remote.read(self.scripts.waiters, int)

    def force_release(self, reason: str) -> Any:
        """Revoke the lock and hand it to the next waiter; return whether it was held."""

        def log(evicted: list[bytes | str]) -> bool:
            for owner in owners_in(evicted):
                logger.warning("lock %r was revoked from %s: %s", self.name, owner, reason)
            return bool(evicted)

        return self.remote.read(self.scripts.evict, log)

    def _owning(self, caller: object) -> Steps[bool]:
        lease = self._held.own(caller)
        if lease is None or lease.remaining() <= 0:
            return False
        values = yield from self.remote.ask(self.scripts.owner)
        return any(text(value).partition(":")[2] == lease.holder for value in values)


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
