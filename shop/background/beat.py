"""A single active beat; a second one stands by and takes over when the first stops.

Two would do no harm but send every sweep twice. They agree through a lock in Redis. While Redis is
away each beats on its own: a sweep too many is better than none.
"""

from __future__ import annotations

import logging
from functools import cached_property
from hashlib import sha256
from typing import Any

from celery.beat import PersistentScheduler

from inventory.redis import client
from locking import LockError, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLease, RedisLock

log = logging.getLogger(__name__)

LEASE = 10.0
"""Seconds for which a beat that died keeps the other waiting; renewed while it lives."""

STAND_BY = 2.0
"""Seconds between looks of the one that waits."""


class OneBeat(PersistentScheduler):
    """Celery's scheduler, active only in the beat that holds the lock."""

    _lease: RedisLease | None = None
    _said = ""

    @cached_property
    def _lock(self) -> RedisLock:
        # Never given up by itself: a beat runs for months. Not fair: standing in line is for those
        # who wait, and this one only looks in.
        # A shop with another broker, though in the same Redis, has a beat of its own.
        broker = sha256(str(self.app.conf.broker_url).encode()).hexdigest()[:12]
        return RedisLock(client(), f"celery beat {broker}", lease=LEASE, fair=False)

    def tick(self, *arguments: Any, **named: Any) -> float:
        """Send due tasks if this beat is active; return the seconds until the next tick."""
        if not self._may_beat():
            return STAND_BY
        return float(super().tick(*arguments, **named))

    def close(self) -> None:
        """Release the lock, so that the other beat takes over at once."""
        super().close()
        if self._lease is not None:
            try:
                self._lease.release()
            except LockError as error:
                log.info("the lock of the beat ends by itself: %s", error)
            self._lease = None

    def _may_beat(self) -> bool:
        if self._lease is not None and not self._lease.lost.is_set():
            return True
        self._lease = None
        try:
            self._lease = self._lock.acquire(timeout=0)
        except LockTimeout:
            self._say("another beat is running; this one stands by")
            return False
        except LockUnavailable:
            self._say("Redis does not answer; this beat goes on without the lock")
        else:
            self._say("this is the beat")
        return True

    def _say(self, what: str) -> None:
        if what != self._said:
            log.warning(what)
        self._said = what
