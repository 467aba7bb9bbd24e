"""Any blocking lock for asyncio: its calls run in threads.

For the backends whose clients have no asyncio of their own.  Each waiting task occupies a thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from locking.backends._waiting import started
from locking.base import AsyncLease, AsyncLock, Lease, Lock, acquirer_in
from locking.leases import Held, leave_home, nobody

T = TypeVar("T")


class ThreadLease(AsyncLease):
    """The asyncio version of another lease; its attributes are that one's."""

    def __init__(self, lease: Lease) -> None:
        self.inner = lease
        self.acquirer: Callable[[], Any] = nobody  # `Held` sets both
        self._home: Callable[[], Held | None] = nobody

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return repr(self.inner)

    async def release(self) -> None:
        """See `Lease.release`; goes on in the background if it is cancelled."""
        try:
            await in_thread(self.inner.release)
        finally:
            if self.inner.released:
                leave_home(self)

    async def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""
        await in_thread(lambda: self.inner.extend(seconds))


class ThreadLock(AsyncLock):
    """An asyncio lock of which another handle, of any backend, does the work."""

    def __init__(self, lock: Lock) -> None:
        self.inner = lock
        self.name, self.strength = lock.name, lock.strength
        self.kind = lock.kind or type(lock).__qualname__
        self._held = Held()

    def server_address(self) -> str:
        """See `Handle.server_address`."""
        return self.inner.server_address()

    async def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> ThreadLease:
        """See `Lock.acquire`; what a cancelled call acquires is released."""
        acquirer = acquirer_in(sys._getframe().f_code)
        lease = await in_thread(
            lambda: self.inner.acquire(timeout, blocking=blocking), undo=lambda late: late.release()
        )
        got = ThreadLease(lease)
        self._held.add(acquirer, got)
        return got

    async def owner(self) -> str | None:
        """See `Lock.owner`."""
        return await in_thread(self.inner.owner)

    async def waiters(self) -> int:
        """See `Lock.waiters`."""
        return await in_thread(self.inner.waiters)

    async def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        return await in_thread(lambda: self.inner.force_release(reason))


async def in_thread(call: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
    """Run a blocking call in a thread of its own.

    A cancelled caller does not wait for it; `undo` then gets its result.
    """
    outcome = started(call)
    try:
        return await asyncio.wrap_future(outcome)
    except (asyncio.CancelledError, GeneratorExit):
        if undo is not None:
            started(lambda: undo(outcome.result()))
        raise
