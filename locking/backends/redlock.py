"""Redlock: one lock on a majority of independent Redis (or Valkey) servers.

Guarantees: clients can acquire and release while a minority of the servers is down.  Mutual
exclusion holds as long as clocks run at about the same rate, no client is paused past its lease,
and no server restarts without its data within a lease; keep such a server offline for one lease.
All servers are asked at once, so that silent ones cost one time-out together.

Limits: if one of these conditions fails, two clients may hold the lock, and there is *no fencing
token* by which the guarded resource could notice, because counters on independent servers have no
common order.  Not fair: waiters poll with a growing, jittered pause.  For almost every use, the
`redis` backend on one server with a replica is faster, fair and fenced.

Sources: "Distributed Locks with Redis", redis.io; for the limits, M. Kleppmann, "How to do
distributed locking", 2016.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio

from locking.backends._driving import acquires_alone
from locking.backends._redlock_servers import Servers, redlock_clients
from locking.backends._waiting import Deadline, WaitingLock, default_owner
from locking.base import (
    NO_HOOKS,
    SYSTEM_CLOCK,
    AsyncLock,
    Capabilities,
    Clock,
    Held,
    Hooks,
    Lease,
    LeaseState,
    LockTimeout,
    time_limit,
)
from locking.leases import AsyncBlock

__all__ = ["AsyncRedLock", "AsyncRedLockLease", "RedLock", "RedLockLease", "redlock_clients"]


class _State(LeaseState):
    """A lease backed by the same key and value on a majority of the servers."""

    __slots__ = ("_gone_from", "_servers", "_value")

    def __init__(self, lock: RedLock | AsyncRedLock, value: str) -> None:
        """Create the lease granted to `value`; the first command is sent now."""
        super().__init__(
            lock.name,
            seconds=lock.servers.lease_seconds,
            sent_at=lock.clock.monotonic(),
            clock=lock.clock,
            hooks=lock.hooks,
        )
        self._servers = lock.servers
        self._value = value
        self._gone_from: set[int] = set()  # servers that have confirmed our release


class RedLockLease(_State, Lease):
    """A lease of a `RedLock`."""

    __slots__ = ()

    def _release(self) -> bool:
        steps = self._servers.releasing(self._value, self._gone_from)
        return self._servers.perform(steps, self.clock)

    def _extend(self, seconds: float) -> bool:
        return self._servers.perform(self._servers.extending(self._value, seconds), self.clock)


class RedLock(WaitingLock):
    """A lock on a majority of `clients`, each of an independent server."""

    capabilities = Capabilities()

    def __init__(
        self, clients: Sequence[redis.Redis], name: str, *, lease: float = 10.0, **options: Any
    ) -> None:
        """Make a handle of the lock `name`, with leases of `lease` seconds."""
        super().__init__(name, **options)
        self.servers = Servers(clients, name, lease)
        self._address = self.servers.address

    def _acquire(self, deadline: Deadline) -> Lease:
        steps = self.servers.acquiring(
            lambda value: RedLockLease(self, value), self.owner_name, deadline
        )
        lease: Lease = self.servers.perform(steps, self.clock)
        return lease

    def owner(self) -> str | None:
        """See `Lock.owner`: the value on which a majority agrees."""
        return self.servers.perform(self.servers.finding_owner(), self.clock)

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        return self.servers.perform(self.servers.evicting(reason), self.clock)


class AsyncRedLockLease(_State, AsyncBlock):
    """A lease of an `AsyncRedLock`."""

    __slots__ = ()

    async def release(self) -> None:
        """See `Lease.release`."""
        if self._released:
            return
        self.begin_release()
        steps = self._servers.releasing(self._value, self._gone_from)
        self._note_release(await self._servers.perform_async(steps))

    async def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""
        self.check()
        seconds = self._extension(seconds)
        deadline = self.clock.monotonic() + seconds
        self._deadline = min(self._deadline, deadline)
        steps = self._servers.extending(self._value, seconds)
        self._note_extension(await self._servers.perform_async(steps), deadline)


class AsyncRedLock(AsyncLock):
    """The asyncio version of `RedLock`; both exclude each other."""

    def __init__(
        self,
        clients: Sequence[redis.asyncio.Redis],
        name: str,
        *,
        lease: float = 10.0,
        owner: str | None = None,
        timeout: float | None = None,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make a handle of the lock `name`, with leases of `lease` seconds."""
        self.name, self.hooks, self.clock = name, hooks, clock
        self.servers = Servers(clients, name, lease)
        self.owner_name, self.timeout = owner or default_owner(), time_limit(timeout, True)
        self._address = self.servers.address
        self.kind = RedLock.__qualname__
        self._held = Held()

    async def acquire(
        self, timeout: float | None = None, *, blocking: bool = True
    ) -> AsyncRedLockLease:
        """See `Lock.acquire`."""
        if timeout is None and blocking:
            timeout = self.timeout
        deadline = Deadline(time_limit(timeout, blocking), self.clock)
        task, acquired = asyncio.current_task(), False
        alone = acquires_alone(task, sys._getframe().f_code)
        steps = self.servers.acquiring(
            lambda value: AsyncRedLockLease(self, value), self.owner_name, deadline
        )
        try:
            lease: AsyncRedLockLease = await self.servers.perform_async(steps)
            self._held.add(None if alone else task, lease)
            acquired = True
            return lease
        except LockTimeout as error:
            raise LockTimeout(f"lock {self.name!r}: {error}") from error
        finally:
            self.hooks.waited(self.name, deadline.elapsed(), acquired)

    async def locked(self) -> bool:
        """See `Lock.locked`."""
        return await self.owner() is not None

    async def owner(self) -> str | None:
        """See `Lock.owner`."""
        return await self.servers.perform_async(self.servers.finding_owner())

    async def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        return await self.servers.perform_async(self.servers.evicting(reason))
