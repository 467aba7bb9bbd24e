"""The contract of every lock in this package: handles, blocking and for asyncio.

A handle names a lock; `acquire` returns a lease (`locking.leases`); errors and capabilities are in
`locking.terms`.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from locking.leases import Held, Lease, LeaseState, LostEvent
from locking.terms import (
    NO_HOOKS,
    SYSTEM_CLOCK,
    Capabilities,
    Clock,
    Hooks,
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    LockUnavailable,
    LockUnsupported,
    time_limit,
)

__all__ = [
    "NO_HOOKS",
    "SYSTEM_CLOCK",
    "AsyncLease",
    "AsyncLock",
    "Capabilities",
    "Clock",
    "Held",
    "Hooks",
    "Lease",
    "LeaseState",
    "Lock",
    "LockError",
    "LockLost",
    "LockNotHeld",
    "LockTimeout",
    "LockUnavailable",
    "LockUnsupported",
    "LostEvent",
    "time_limit",
]


class Handle:
    """What a lock's blocking and asyncio handles share: the leases of the calling thread or task.

    Cheap to construct; sends nothing before `acquire`.  All handles of one name on one server
    exclude each other, in any process; also two handles in one thread.
    """

    name: str
    kind: str = ""
    """What locks of the same name on the same server exclude each other; by default the class."""
    strength: int = 1
    """Of two handles of a lock, the one with more strength excludes all that the other excludes."""
    _address: str = ""
    _held: Held

    if TYPE_CHECKING:

        @staticmethod
        def _caller() -> object:
            """Return the calling thread or task."""

    def _latest(self) -> Any:
        lease = self._held.latest(self._caller())
        if lease is None:
            raise self._not_held()
        return lease

    def _not_held(self) -> LockNotHeld:
        return LockNotHeld(f"{self._caller()!r} holds no lease of {self.name!r} by this handle")

    def _entered(self, error: BaseException | None) -> Any:
        """Return the lease of the `with` block that ends with `error`.

        If the body has released it already, raises `LockNotHeld`; adds a note to `error` instead if
        the body raised, and returns None.
        """
        lease = self._held.leave(self._caller())
        if lease is not None and not lease.released:
            return lease
        problem = self._not_held()
        if error is None:
            raise problem
        error.add_note(f"and then LockNotHeld: {problem}")
        return None

    def server_address(self) -> str:
        """Return where the lock's server is, in the same words in every process."""
        return self._address


class Lock(Handle, ABC):
    """A handle of a named lock.

    >>> with lock as lease:  # doctest: +SKIP
    ...     sell(fence=lease.token)
    >>> with lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     sell(fence=lease.token)
    """

    capabilities: ClassVar[Capabilities]
    _caller = staticmethod(threading.current_thread)

    @abstractmethod
    def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> Lease:
        """Wait for the lock for at most `timeout` seconds; None waits without limit, 0 tries once.

        `blocking=False` is the same as `timeout=0`.  Raises `LockTimeout` if it was not free in
        time, `LockUnavailable` if the server does not answer.  A failed attempt leaves nothing on
        the server for longer than a lease.
        """

    @property
    def lease(self) -> Lease:
        """The lease that this thread acquired last; raises `LockNotHeld` if it holds none."""
        found: Lease = self._latest()
        return found

    def release(self) -> None:
        """Release this thread's lease; raises `LockNotHeld` and what `Lease.release` raises."""
        self.lease.release()

    def extend(self, seconds: float) -> None:
        """Extend this thread's lease; raises `LockNotHeld` and what `Lease.extend` raises."""
        self.lease.extend(seconds)

    def owned(self) -> bool:
        """Return whether this thread holds the lock by this handle."""
        lease = self._held.latest(threading.current_thread())
        return lease is not None and lease.remaining() > 0

    def locked(self) -> bool:
        """Return whether any client holds the lock."""
        return self.owner() is not None

    def __enter__(self) -> Lease:
        lease: Lease = self._held.enter(self._caller(), self.acquire())
        return lease

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        lease = self._entered(error)
        if lease is not None:
            lease.__exit__(kind, error, traceback)

    def owner(self) -> str | None:
        """Return the name of the current holder's handle; None if the lock is free."""
        raise LockUnsupported(f"{type(self).__name__} cannot name the holder of a lock")

    def waiters(self) -> int:
        """Return how many clients wait for the lock."""
        raise LockUnsupported(f"{type(self).__name__} cannot count the waiters")

    def force_release(self, reason: str) -> bool:
        """Revoke the lock from its holder, for operators; return whether it was held.

        The holder notices at its next renewal, extension or release.  `reason` is logged.
        """
        raise LockUnsupported(f"{type(self).__name__} cannot revoke a lock")


class AsyncLease(Protocol):
    """The asyncio version of `Lease`."""

    async def release(self) -> None:
        """See `Lease.release`."""

    async def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> None: ...


class AsyncLock(Handle, ABC):
    """The asyncio version of `Lock`; a task takes the place of a thread."""

    _caller = staticmethod(asyncio.current_task)

    @abstractmethod
    async def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> AsyncLease:
        """See `Lock.acquire`."""

    @property
    def lease(self) -> Any:
        """The lease that this task acquired last; raises `LockNotHeld` if it holds none."""
        return self._latest()

    async def release(self) -> None:
        """Release this task's lease; raises `LockNotHeld` and what the lease's release raises."""
        await self.lease.release()

    async def extend(self, seconds: float) -> None:
        """Extend this task's lease; raises `LockNotHeld` and what the lease's extend raises."""
        await self.lease.extend(seconds)

    async def __aenter__(self) -> Any:
        return self._held.enter(self._caller(), await self.acquire())

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        lease = self._entered(error)
        if lease is not None:
            await lease.__aexit__(kind, error, traceback)
