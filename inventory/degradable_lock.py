"""Locks in Redis that their callers can do without: they save work, the database decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from inventory.metrics import metrics
from inventory.redis import circuit, client
from locking import LockError, LockTimeout
from locking.backends.redis import RedisLock


class DegradableLock:
    """A lock for each id, which is held as long as Redis answers in time, and else not.

    Args:
        kind: what is locked; part of the lock's name in Redis.
        lease: seconds. It is not renewed, so it must be longer than a holder's work.
        timeout: seconds to wait for the lock, and then to go on without it.
        metrics_prefix: of its counters ``lock_wait``, ``lock_timeout``, ``without_lock`` and
            ``lock_lost``.
    """

    def __init__(
        self, kind: str, *, lease: float, timeout: float, metrics_prefix: str = ""
    ) -> None:
        self._kind = kind
        self._prefix = metrics_prefix
        self.lease = lease
        self.timeout = timeout

    def make(self, of: int) -> RedisLock:
        """Return the lock itself, for one who cannot do without."""
        return RedisLock(client(), f"{self._kind}:{of}", lease=self.lease, renew=False)

    @contextmanager
    def hold(self, of: int) -> Iterator[int | None]:
        """Hold the lock inside the block; yields its fencing token, or None without it."""
        lock = self.make(of)
        try:
            with metrics.time(f"{self._prefix}lock_wait"):
                lease = circuit().ask(lambda: lock.acquire(timeout=self.timeout), otherwise=None)
        except LockTimeout:
            metrics.count(f"{self._prefix}lock_timeout")
            lease = None
        if lease is None:
            metrics.count(f"{self._prefix}without_lock")
            yield None
            return
        try:
            yield lease.token
        finally:
            try:
                lease.release()
            except LockError:
                # The lease ended early, or Redis is gone. The database has decided what was
                # written, so this is something to count and nothing to fail for.
                metrics.count(f"{self._prefix}lock_lost")

    @contextmanager
    def hold_all(self, ids: Iterable[int]) -> Iterator[dict[int, int | None]]:
        """Hold the locks of several ids inside the block; yields their tokens by id.

        All callers take them in ascending order, so none waits in a circle (as
        :func:`locking.acquire_all` does for locks that one cannot do without; here each may be
        missing, and its loss is no error).
        """
        with ExitStack() as stack:
            yield {each: stack.enter_context(self.hold(each)) for each in sorted(set(ids))}


ITEM_LOCK = DegradableLock("item", lease=2.0, timeout=2.5)
"""One process at a time sells an item. A batch takes milliseconds; a holder that is paused for
longer than its lease is overtaken, and its fencing token then changes nothing. The time-out is
longer than a lease, so that a dead holder is waited out."""
