"""Acquisition of several locks without deadlock: every client takes them in the same order.

A deadlock needs a cycle of clients, each of which waits for the next one's lock.  If all clients
take locks in ascending order of their names, the client that holds the greatest lock of a cycle
waits for no other in it (Havender, "Avoiding deadlock in multitasking systems", 1968).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

from locking.base import AsyncLock, Handle, Lease, Lock
from locking.terms import SYSTEM_CLOCK, Clock

H = TypeVar("H", bound=Handle)


@contextmanager
def acquire_all(
    locks: Iterable[Lock], timeout: float | None = None, *, clock: Clock = SYSTEM_CLOCK
) -> Iterator[Mapping[Any, Lease]]:
    """Hold all `locks`, of one backend, and yield their leases by name.

    Leases of different locks of one name, such as a lock and a semaphore or locks on two databases,
    are found by their handles instead.  Several handles of one lock count as one: the write lock of
    a pair stands for both, and the semaphore that takes the most permits for all of its name.

    `timeout` (seconds) covers all of them.  Raises `LockTimeout` or `LockUnavailable` if one cannot
    be acquired; none is held then.  Leaving the block releases all in reverse order and raises
    `LockLost` if one was lost, unless the body raised.
    """
    plan = _Plan(locks, timeout, clock)
    with ExitStack() as stack:
        for lock in plan.order:
            plan.note(lock, stack.enter_context(lock.acquire(plan.left())))
        yield plan.leases


@asynccontextmanager
async def acquire_all_async(
    locks: Iterable[AsyncLock], timeout: float | None = None, *, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Mapping[Any, Any]]:
    """The asyncio version of `acquire_all`."""
    plan = _Plan(locks, timeout, clock)
    async with AsyncExitStack() as stack:
        for lock in plan.order:
            lease = await lock.acquire(plan.left())
            plan.note(lock, await stack.enter_async_context(lease))
        yield plan.leases


class _Plan(Generic[H]):
    """Which of several handles to acquire, in which order, and the leases got so far."""

    def __init__(self, locks: Iterable[H], timeout: float | None, clock: Clock) -> None:
        self._handles = list(locks)
        chosen: dict[tuple[str, ...], H] = {}
        for lock in sorted(self._handles, key=lambda handle: handle.strength):
            chosen[_identity(lock)] = lock
        self.order = [chosen[identity] for identity in sorted(chosen)]
        self._names = Counter(lock.name for lock in self.order)
        self._clock = clock
        self._deadline = None if timeout is None else clock.monotonic() + timeout
        self.leases: dict[Any, Any] = {}

    def left(self) -> float | None:
        """Return the seconds left for the next one."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._clock.monotonic())

    def note(self, lock: H, lease: Any) -> None:
        """Record the lease of one of `order`."""
        if self._names[lock.name] == 1:
            self.leases[lock.name] = lease
            return
        identity = _identity(lock)
        self.leases |= {each: lease for each in self._handles if _identity(each) == identity}


def _identity(lock: Handle) -> tuple[str, ...]:
    return lock.name, lock.kind or type(lock).__qualname__, lock.server_address()
