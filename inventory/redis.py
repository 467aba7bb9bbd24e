"""This process's use of Redis: the locks of items, and the circuit breaker around every call.

The project makes the client and names it in the setting `INVENTORY_REDIS`. It sends its own calls
to the same Redis through `circuit()` too, so that after one failure no other call waits in vain.

The circuit breaker is written here because pybreaker holds a process-wide lock around every call:
the wait of one item's buyers would delay those of all other items.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, partial
from typing import TypeVar

from django.utils.module_loading import import_string
from redis import Redis, RedisCluster
from redis.exceptions import RedisClusterException, RedisError

from inventory import conf, metrics
from inventory.metrics import ITEM_LOCKS, LockMetrics
from inventory.postgresql.base import connected, lend_connections
from locking import Lease, LockError, LockTimeout, LockUnavailable
from locking.redis_lock import RedisLock

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_AFTER = 1.0
"""Seconds between attempts on a Redis that does not answer."""

REMIND_AFTER = 60.0
"""Seconds between two log lines of an outage that lasts."""

NO_ANSWER = (RedisError, RedisClusterException)
"""What a client raises when Redis does not answer; the second is no subclass of the first."""


class Circuit:
    """A circuit breaker: after a failure, calls skip Redis for a while.

        time 0.0 s   a call gets no answer: the circuit is open, and `ask` returns `otherwise`
        time 0.5 s   other calls return `otherwise` at once, without asking Redis
        time 1.0 s   one call probes Redis, while the others still skip it
        time 1.1 s   the probe is answered: the circuit is closed, and all calls ask Redis

    Each outage is logged when it begins, once per minute while it lasts, and when it ends.
    """

    def __init__(self) -> None:
        self._broken = False
        self._since = self._retry_at = self._remind_at = 0.0
        self._changes = 0
        self._changing = threading.Lock()

    @property
    def open(self) -> bool:
        """Whether calls skip Redis."""
        return self._broken

    def ask(self, question: Callable[[], T], otherwise: T) -> T:
        """Ask Redis, unless it has just failed.

        Args:
            question: makes a call to Redis and returns its answer.
            otherwise: the result if Redis does not answer or is skipped.

        Returns:
            The answer, or `otherwise`.
        """
        if self._broken:
            if time.monotonic() < self._retry_at:
                return otherwise
            # This caller probes Redis; the others keep skipping it meanwhile.
            self._retry_at = time.monotonic() + RETRY_AFTER
        changes_seen = self._changes
        try:
            answer = question()
        except (*NO_ANSWER, LockUnavailable):
            self._failed(changes_seen)
            return otherwise
        if self._broken:
            self._change(changes_seen, broken=False)
        return answer

    def trip(self) -> None:
        """Skip Redis for a while, after a call outside this circuit breaker has failed."""
        self._failed(self._changes)

    def _failed(self, changes_seen: int) -> None:
        metrics.REDIS_UNAVAILABLE.inc()
        self._change(changes_seen, broken=True)

    def _change(self, changes_seen: int, *, broken: bool) -> None:
        """Open or close the circuit, unless it has changed since the call began: a late answer
        says nothing of the state after that change.
        """
        with self._changing:
            if changes_seen != self._changes:
                return
            now = time.monotonic()
            if broken:
                self._retry_at = now + RETRY_AFTER
            begun = broken != self._broken
            if not begun and not (broken and now >= self._remind_at):
                return
            self._remind_at = now + REMIND_AFTER
            if not begun:
                log.warning("Redis has not answered for %.0f s", now - self._since)
                return
            self._broken = broken
            metrics.DEGRADED.set(broken)
            self._changes += 1
            before, self._since = self._since, now
        if broken:
            log.warning("Redis does not answer; this process goes on without its locks")
        else:
            log.warning("Redis answers again, after %.1f s", now - before)


@cache
def given_client() -> Redis | RedisCluster | None:
    """Return the client that the project makes, the same each time; None if it names none."""
    path = conf.REDIS.get()
    if not path:
        return None
    client: Redis | RedisCluster = import_string(path)()
    return client


@cache
def circuit() -> Circuit:
    """Return the one circuit breaker of this process's Redis."""
    return Circuit()


# A sale's batches all take the same few locks.
@lru_cache(maxsize=1000)
def _lock(name: str, lease: float) -> RedisLock | None:
    client = given_client()
    return None if client is None else RedisLock(client, name, lease=lease, renew=False)


def forget_client() -> None:
    """Forget the client and the state of the circuit, because the setting names another Redis."""
    for cached in (given_client, circuit, _lock):
        cached.cache_clear()


conf.REDIS.on_change(forget_client)


class DegradableLock:
    """A lock per id that only saves work: the database decides. If Redis does not answer in time,
    or the project has none, the caller continues without the lock.

    Args:
        kind: kind of thing that is locked, such as "item"; part of the lock's name in Redis.
        lease: seconds; not renewed, so it must exceed the time that a holder works.
        timeout: seconds to wait for the lock before the caller continues without it.
        counted: metrics in which these locks are counted and measured.
    """

    def __init__(
        self, kind: str, *, lease: float, timeout: float, counted: LockMetrics = ITEM_LOCKS
    ) -> None:
        self._kind = kind
        self._counted = counted
        self.lease = lease
        self.timeout = timeout

    def make(self, of: int) -> RedisLock:
        """Return the plain lock, for a caller that cannot do without it.

        Raises:
            LockUnavailable: the project has no Redis.
        """
        lock = _lock(f"{self._kind}:{of}", self.lease)
        if lock is None:
            raise LockUnavailable("the setting INVENTORY_REDIS names no client")
        return lock

    @contextmanager
    def hold(self, of: int) -> Iterator[int | None]:
        """Hold the lock inside the block; yield its fencing token, or None without the lock."""
        lock = _lock(f"{self._kind}:{of}", self.lease)
        if lock is None:
            self._counted.without.inc()
            yield None
            return
        asked = time.perf_counter()
        lease = self._acquire(lock)
        answered = time.perf_counter()
        self._counted.wait.observe(answered - asked)
        if lease is None:
            self._counted.without.inc()
            yield None
            return
        try:
            yield lease.token
        finally:
            self._counted.hold.observe(time.perf_counter() - answered)
            try:
                lease.release()
            except LockUnavailable:
                # Redis does not answer: the next caller need not wait for a time-out of its own.
                circuit().trip()
                self._counted.lost.inc()
            except LockError:
                # The lease ended early or Redis failed. The fencing token has already decided
                # what was written, so this is counted and not raised.
                self._counted.lost.inc()

    def _acquire(self, lock: RedisLock) -> Lease | None:
        """Return a lease; None if the caller goes on without the lock."""
        if connected.get():
            # Many requests may wait for a few database connections. A caller that gave its own back
            # for a lock that is free would queue behind all of them for the next one.
            with suppress(LockTimeout):
                return circuit().ask(partial(lock.acquire, 0), otherwise=None)
            # The holder may need a connection to finish: if callers that wait kept theirs, the pool
            # could run dry and they would all wait for each other.
            lend_connections()
        try:
            return circuit().ask(partial(lock.acquire, self.timeout), otherwise=None)
        except LockTimeout:
            self._counted.timeout.inc()
            return None


ITEM_LOCK = DegradableLock("item", lease=2.0, timeout=2.5)
"""Lets one process at a time sell an item. A batch takes milliseconds. If a holder is paused for
longer than its lease, the next holder's fencing token makes its writes fail. The timeout exceeds
the lease, so that waiters outlast a dead holder."""
