"""Locks in Redis that only save work: when Redis fails, callers go on and the database decides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from inventory.metrics import metrics
from inventory.postgresql.base import lend_connections
from inventory.redis import circuit, client
from locking import LockError, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock


class DegradableLock:
    """A lock per id. When Redis does not answer in time, the caller continues without it.

    Args:
        kind: what is locked; part of the lock's name in Redis.
        lease: seconds; not renewed, so it must exceed the time that a holder works.
        timeout: seconds to wait for the lock before the caller continues without it.
        metrics_prefix: prefix of the metrics' names (`inventory.metrics`).
    """

    def __init__(
        self, kind: str, *, lease: float, timeout: float, metrics_prefix: str = ""
    ) -> None:
        self._kind = kind
        self._prefix = metrics_prefix
        self.lease = lease
        self.timeout = timeout

    def make(self, of: int) -> RedisLock:
        """Return the plain lock, for a caller that cannot do without it."""
        return RedisLock(client(), f"{self._kind}:{of}", lease=self.lease, renew=False)

    @contextmanager
    def hold(self, of: int) -> Iterator[int | None]:
        """Hold the lock inside the block; yield its fencing token, or None without the lock."""
        # The holder may need a connection to finish: if callers that wait kept theirs, the pool
        # could run dry and they would all wait for each other.
        lend_connections()
        lock = self.make(of)
        asked = time.perf_counter()
        try:
            lease = circuit().ask(lambda: lock.acquire(timeout=self.timeout), otherwise=None)
        except LockTimeout:
            metrics.count(f"{self._prefix}lock_timeout")
            lease = None
        answered = time.perf_counter()
        metrics.observe(f"{self._prefix}lock_wait_seconds", answered - asked)
        if lease is None:
            metrics.count(f"{self._prefix}without_lock")
            yield None
            return
        try:
            yield lease.token
        finally:
            held = time.perf_counter() - answered
            metrics.observe(f"{self._prefix}lock_hold_seconds", held)
            try:
                lease.release()
            except LockUnavailable:
                # Redis is gone: the next caller need not find out by another time-out.
                circuit().trip()
                metrics.count(f"{self._prefix}lock_lost")
            except LockError:
                # The lease ended early or Redis failed. The fencing token has already decided
                # what was written, so this is counted and not raised.
                metrics.count(f"{self._prefix}lock_lost")


ITEM_LOCK = DegradableLock("item", lease=2.0, timeout=2.5)
"""Lets one process at a time sell an item. A batch takes milliseconds. If a holder is paused for
longer than its lease, the next holder's fencing token makes its writes fail. The timeout exceeds
the lease, so that waiters outlast a dead holder."""
