"""A single active Celery beat; a second one stands by and takes over when the first stops.

Two active beats would only send each sweep twice. A lock in Redis selects the active one. While
Redis does not answer, each beat runs on its own: an extra sweep is better than none.
"""

from __future__ import annotations

import logging
from functools import cached_property
from hashlib import sha256
from typing import Any

from celery.beat import PersistentScheduler, ScheduleEntry
from kombu.exceptions import OperationalError

from inventory.redis import client
from locking import LockError, LockTimeout, LockUnavailable
from locking.redis_lock import RedisLease, RedisLock
from shop.background.sending import ENOUGH_SWEEPS, waiting

log = logging.getLogger(__name__)

LEASE = 10.0
"""Seconds that a dead beat delays the other; renewed while it runs."""

STAND_BY = 2.0
"""Seconds between attempts of the standby beat."""


class OneBeat(PersistentScheduler):
    """Celery's scheduler, active only in the beat that holds the lock."""

    _lease: RedisLease | None = None
    _said = ""

    @cached_property
    def _lock(self) -> RedisLock:
        # Renewed without limit, because a beat runs for months. Unfair mode: the standby polls
        # instead of queueing. The lock's name includes the broker, so that shops with different
        # brokers in one Redis each have a beat.
        broker = sha256(str(self.app.conf.broker_url).encode()).hexdigest()[:12]
        return RedisLock(client(), f"celery beat {broker}", lease=LEASE, fair=False)

    def tick(self, *arguments: Any, **named: Any) -> float:
        """Send due tasks if this beat is active; return the seconds until the next tick."""
        if not self._may_beat():
            return STAND_BY
        return float(super().tick(*arguments, **named))

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send a due sweep, unless so many tasks wait in its queue that nobody seems to work."""
        queue = self.app.conf.task_routes[entry.task]["queue"]
        try:
            enough = waiting(producer or self.producer, queue) >= ENOUGH_SWEEPS
        except OperationalError:
            enough = False  # sending connects again, or logs why it cannot
        if enough:
            self._say(f"enough tasks wait in the queue {queue}; no further ones are sent")
            return
        super().apply_entry(entry, producer=producer)

    def close(self) -> None:
        """Release the lock, so that the other beat takes over at once."""
        super().close()
        if self._lease is not None:
            try:
                self._lease.release()
            except LockError as error:
                log.info("the lock of the beat will expire: %s", error)
            self._lease = None

    def _may_beat(self) -> bool:
        if self._lease is not None and not self._lease.lost.is_set():
            return True
        self._lease = None
        try:
            self._lease = self._lock.acquire(timeout=0)
        except LockTimeout:
            self._say("another beat is active; this one stands by")
            return False
        except LockUnavailable:
            self._say("Redis does not answer; this beat runs without the lock")
        else:
            self._say("this beat is active")
        return True

    def _say(self, what: str) -> None:
        if what != self._said:
            log.warning(what)
        self._said = what
