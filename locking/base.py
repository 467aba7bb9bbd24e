"""The contract of every lock in this package: handles and leases, blocking and for asyncio.

A handle names a lock; `acquire` returns a lease.  Errors and capabilities are in `locking.terms`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Self

from locking.leases import Held, LeaseState
from locking.terms import Capabilities, LockError, LockNotHeld, LockUnsupported

logger = logging.getLogger(__name__)


@contextmanager
def noted_on(error: BaseException | None) -> Iterator[None]:
    """Turn a `LockError` into a note on the error that was there before, if there was one."""
    try:
        yield
    except LockError as problem:
        if error is None:
            raise
        if str(problem) != str(error):
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class Lease(LeaseState, ABC):
    """A granted lock: for `remaining()` seconds, no other client holds it.

    A context manager that releases the lock at the end of the block.  Leaving the block of a lost
    lease raises `LockLost`; if the body raised, its exception propagates instead, with a note.
    """

    __slots__ = ()

    @abstractmethod
    def extend(self, seconds: float) -> None:
        """Set the lease to expire `seconds` from now; never re-create a lost lease.

        A lease that is renewed keeps this length from then on; `max_hold` still ends it.  Raises
        `LockLost` if another client may hold the lock, `LockUnavailable` if the server does not
        answer (the earlier of the two expiries then applies), `LockUnsupported` if a lease does not
        expire, ValueError for less than 1 ms and for more than the server keeps; the lease is then
        as before.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the lock; do nothing if it is already released.

        Raises `LockLost` if the lease ended before, `LockUnavailable` if the server does not
        answer; call `release` again in that case.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with noted_on(error):
            self.release()


class AsyncLease(ABC):
    """The asyncio version of `Lease`, with a block that ends as that of a `Lease`."""

    __slots__ = ()

    @abstractmethod
    async def release(self) -> None:
        """See `Lease.release`."""

    @abstractmethod
    async def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with noted_on(error):
            await self.release()


class Handle:
    """What a lock's blocking and asyncio handles share: the leases acquired by the handle.

    Cheap to construct; sends nothing before `acquire`.  All handles of one name on one server
    exclude each other, in any process; also two handles in one thread.
    """

    name: str
    _address: str = ""
    _held: Held
    _caller: Callable[[], object]

    def __repr__(self) -> str:
        lease = self._held.live()
        held = f"holds {lease!r}" if lease is not None else "holds no lease"
        return f"<{type(self).__name__} {self.name!r} on {self.server_address()}, {held}>"

    def _not_held(self) -> LockNotHeld:
        return LockNotHeld(f"{self._caller()!r} holds no lease of {self.name!r} by this handle")

    def _left(self, frame: FrameType, error: BaseException | None) -> Any:
        """Return the lease of the frame's `with` block, which ends with `error`.

        If the body has released it already, raises `LockNotHeld`; adds a note to `error` instead if
        the body raised, and returns None.
        """
        lease = self._held.leave(frame, self._caller())
        if lease is not None and not lease.released:
            return lease
        with noted_on(error):
            raise self._not_held()
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
        """The lease that this thread acquired last by this handle, or else the handle's latest.

        Raises `LockNotHeld` if there is none, and in a thread that has just acquired in vain.
        """
        found: Lease | None = self._held.latest(self._caller())
        if found is None:
            raise self._not_held()
        return found

    def release(self) -> None:
        """Release the handle's `lease`; raises `LockNotHeld` and what `Lease.release` raises."""
        self.lease.release()

    def extend(self, seconds: float) -> None:
        """Extend the handle's `lease`; raises `LockNotHeld` and what `Lease.extend` raises."""
        self.lease.extend(seconds)

    def owned(self) -> bool:
        """Return whether this thread holds the lock by this handle."""
        lease = self._held.own(threading.current_thread())
        return lease is not None and lease.remaining() > 0

    def locked(self) -> bool:
        """Return whether any client holds the lock."""
        return self.owner() is not None

    def __enter__(self) -> Lease:
        lease: Lease = self._held.enter(sys._getframe(1), self.acquire())
        return lease

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        lease = self._left(sys._getframe(1), error)
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
        held = self._evict()
        if held:
            logger.warning("the lock %r was revoked from its holder: %s", self.name, reason)
        return held

    def _evict(self) -> bool:
        raise LockUnsupported(f"{type(self).__name__} cannot revoke a lock")


class AsyncLock(Handle, ABC):
    """The asyncio version of `Lock`; a task takes the place of a thread."""

    _caller = staticmethod(asyncio.current_task)

    @abstractmethod
    async def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> AsyncLease:
        """See `Lock.acquire`."""

    @property
    def lease(self) -> Any:
        """The lease that this task acquired last by this handle; raises `LockNotHeld` without it.

        That of a task that did nothing else, as `asyncio.wait_for` makes them, is any task's.
        """
        lease = self._held.own(self._caller())
        if lease is None:
            raise self._not_held()
        return lease

    async def release(self) -> None:
        """Release the handle's `lease`; raises `LockNotHeld` and what that raises."""
        await self.lease.release()

    async def extend(self, seconds: float) -> None:
        """Extend the handle's `lease`; raises `LockNotHeld` and what the lease's extend raises."""
        await self.lease.extend(seconds)

    async def owned(self) -> bool:
        """Return whether this task holds the lock by this handle."""
        lease = self._held.own(self._caller())
        return lease is not None and lease.remaining() > 0

    async def locked(self) -> bool:
        """Return whether any client holds the lock."""
        return await self.owner() is not None

    @abstractmethod
    async def owner(self) -> str | None:
        """See `Lock.owner`."""

    @abstractmethod
    async def waiters(self) -> int:
        """See `Lock.waiters`."""

    @abstractmethod
    async def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""

    # The methods of `async with` are called by the block's frame, but run by the event loop.

    def __aenter__(self) -> Coroutine[Any, Any, Any]:
        return self._enter(sys._getframe(1))

    async def _enter(self, frame: FrameType) -> Any:
        return self._held.enter(frame, await self.acquire())

    def __aexit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> Coroutine[Any, Any, None]:
        return self._leave_block(sys._getframe(1), error)

    async def _leave_block(self, frame: FrameType, error: BaseException | None) -> None:
        lease = self._left(frame, error)
        if lease is not None:
            await lease.__aexit__(type(error), error, None)


def acquirer_in(code: object) -> asyncio.Task[Any] | None:
    """Return the current task; None if it only runs the coroutine with that code, for its awaiter.

    `asyncio.wait_for`, `gather` and `create_task` make such tasks.
    """
    task = asyncio.current_task()
    return None if getattr(task and task.get_coro(), "cr_code", None) is code else task
