"""Acquisition of several locks without deadlock: every client takes them in the same order.

A deadlock needs a cycle of clients, each of which waits for the next one's lock.  If all clients
take locks in ascending order of their names, the client that holds the greatest lock of a cycle
waits for no other in it (Havender, "Avoiding deadlock in multitasking systems", 1968).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from locking.base import SYSTEM_CLOCK, Clock, Lease, Lock


@contextmanager
def acquire_all(
    locks: Iterable[Lock], timeout: float | None = None, *, clock: Clock = SYSTEM_CLOCK
) -> Iterator[Mapping[str, Lease]]:
    """Hold all `locks`, of one backend, and yield their leases by name.

    `timeout` (seconds) covers all of them.  Raises `LockTimeout` or `LockUnavailable` if one cannot
    be acquired; none is held then.  Two handles of the same name count as one.  Leaving the block
    releases all in reverse order and raises `LockLost` if one was lost, unless the body raised.
    """
    ordered = sorted({lock.name: lock for lock in locks}.items())
    deadline = None if timeout is None else clock.monotonic() + timeout
    with ExitStack() as stack:
        leases = {}
        for name, lock in ordered:
            left = None if deadline is None else max(0.0, deadline - clock.monotonic())
            leases[name] = stack.enter_context(lock.acquire(left))
        yield leases
