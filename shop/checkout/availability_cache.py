"""A cache of whether a sold-out item may become available again: unpaid orders may expire.

Used only after a refusal and cached for a second, so that refusals cost one small query per second
and purchases none.
"""

from __future__ import annotations

import time
from functools import cache

from django.db import Error

from inventory import services

FRESH = 1.0
"""Seconds that an answer is cached."""

MAX_ITEMS = 10_000
"""Cached items; when there are more, the cache starts over."""


class AvailabilityCache:
    """Whether each item may become available again."""

    def __init__(self) -> None:
        self._answers: dict[int, bool] = {}
        self._fresh_until: dict[int, float] = {}

    def may(self, item: int) -> bool:
        """Whether units are held without payment, as of about a second ago."""
        if time.monotonic() < self._fresh_until.get(item, 0.0):
            return self._answers.get(item, False)
        if len(self._fresh_until) >= MAX_ITEMS:
            self._answers.clear()
            self._fresh_until.clear()
        # One request queries again; concurrent ones use the cached answer.
        self._fresh_until[item] = time.monotonic() + FRESH
        try:
            answer = services.may_come_back(item)
        except Error:
            # Promise nothing while the database is unreachable; the refusal needs no answer.
            answer = False
        self._answers[item] = answer
        return answer


@cache
def availability_cache() -> AvailabilityCache:
    """Return the cache of this process."""
    return AvailabilityCache()
