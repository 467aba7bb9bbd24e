"""The item's lock, for as long as Redis answers; without it the shop sells on, only slower.
The guard decides in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from inventory import conf
from inventory.metrics import metrics
from inventory.redis import Circuit, circuit, client
from locking import LockError, LockTimeout
from locking.backends.redis import RedisLock

LEASE = 2.0
"""Seconds. A batch takes milliseconds; a holder that is paused for longer is overtaken, and its
fencing token then changes nothing."""

LOCK_TIMEOUT = 2.5
"""Seconds to wait for the lock: longer than a lease, so that a dead holder is waited out, and
then without it."""


class ItemLocks:
    """The locks of all items: one process at a time sells an item, as long as Redis answers.

    Args:
        make_lock: makes the lock of a name; called once a batch.
        circuit: what every use of this Redis goes through.
    """

    def __init__(self, make_lock: Callable[[str], RedisLock], circuit: Circuit) -> None:
        self._make_lock = make_lock
        self._circuit = circuit

    @contextmanager
    def hold(self, item: int) -> Iterator[int | None]:
        """Hold the item's lock inside the block; yields its fencing token, or None without."""
        lock = self._make_lock(f"item:{item}")
        try:
            with metrics.time("lock_wait"):
                lease = self._circuit.ask(
                    lambda: lock.acquire(timeout=LOCK_TIMEOUT), otherwise=None
                )
        except LockTimeout:
            metrics.count("lock_timeout")
            lease = None
        if lease is None:
            metrics.count("without_lock")
            yield None
            return
        try:
            yield lease.token
        finally:
            try:
                lease.release()
            except LockError:
                # The lease ended early, or Redis is gone. What was written has been decided by
                # the guard, so this is something to count and nothing to fail for.
                metrics.count("lock_lost")

    @contextmanager
    def hold_all(self, items: Iterable[int]) -> Iterator[dict[int, int | None]]:
        """Hold the locks of several items inside the block; yields their tokens by item.

        Everyone takes them in ascending order, so nobody waits in a circle (as
        :func:`locking.acquire_all` does for locks that one cannot do without; here each may be
        missing, and its loss is no error).
        """
        with ExitStack() as stack:
            yield {item: stack.enter_context(self.hold(item)) for item in sorted(set(items))}


def make_lock(name: str) -> RedisLock:
    """Return the lock of that name. It is not renewed: a batch is over long before its lease."""
    return RedisLock(client(), name, lease=LEASE, renew=False)


@cache
def item_locks() -> ItemLocks:
    """Return the item locks of this process."""
    return ItemLocks(make_lock, circuit())


conf.REDIS_URL.on_change(item_locks.cache_clear)
