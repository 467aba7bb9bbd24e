"""Acquisition of several locks without deadlock: every client takes them in the same order.

A deadlock needs a cycle of clients, each of which waits for the next one's lock.  If all clients
take locks in ascending order of their names, the client that holds the greatest lock of a cycle
waits for no other in it (Havender, "Avoiding deadlock in multitasking systems", 1968).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from locking.base import SYSTEM_CLOCK, Clock, Lease, Lock


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
    handles = list(locks)
    chosen: dict[tuple[str, ...], Lock] = {}
    for lock in sorted(handles, key=lambda handle: handle.strength):
        chosen[_identity(lock)] = lock
    names = Counter(lock.name for lock in chosen.values())
    deadline = None if timeout is None else clock.monotonic() + timeout
    leases: dict[Any, Lease] = {}
    with ExitStack() as stack:
        for identity in sorted(chosen):
            lock = chosen[identity]
            left = None if deadline is None else max(0.0, deadline - clock.monotonic())
            lease = stack.enter_context(lock.acquire(left))
            if names[lock.name] == 1:
                leases[lock.name] = lease
            else:
                leases |= {each: lease for each in handles if _identity(each) == identity}
        yield leases


def _identity(lock: Lock) -> tuple[str, ...]:
    return lock.name, lock.kind or type(lock).__qualname__, lock.server_address()
