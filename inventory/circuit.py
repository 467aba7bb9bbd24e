"""A circuit breaker for Redis: an outage costs one time-out a second, not one a request.

Our own twenty lines because pybreaker holds a lock of the whole process around every call, so
that one item's wait would be everybody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError

from inventory.metrics import metrics
from locking import LockUnavailable

T = TypeVar("T")

RETRY_AFTER = 1.0
"""Seconds between looks at a Redis that does not answer."""


class Circuit:
    """Leaves Redis alone for a while after it has failed."""

    def __init__(self) -> None:
        self._broken = False
        self._retry_at = 0.0

    @property
    def open(self) -> bool:
        """Whether Redis is being left alone."""
        return self._broken

    def ask(self, question: Callable[[], T], otherwise: T) -> T:
        """Ask Redis, unless it has just failed.

        Args:
            question: a call to Redis.
            otherwise: the answer when Redis does not give one.
        """
        if self._broken:
            if time.monotonic() < self._retry_at:
                return otherwise
            # This caller looks whether Redis is back; the others go on without meanwhile.
            self._retry_at = time.monotonic() + RETRY_AFTER
        try:
            answer = question()
        except (RedisError, LockUnavailable):
            self._broken = True
            self._retry_at = time.monotonic() + RETRY_AFTER
            metrics.count("redis_unavailable")
            return otherwise
        self._broken = False
        return answer
