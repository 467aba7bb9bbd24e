"""Whether a sold-out item may come back: while orders of it are unpaid, for those may expire.

Asked only when a buyer has been refused, and remembered for a second, so that a crowd that is
refused costs one small query a second, and those who buy nothing.
"""

from __future__ import annotations

import time
from functools import cache

from django.db import Error

from inventory import services

FRESH = 1.0
"""Seconds for which an answer is given again."""

MOST_ITEMS = 10_000
"""Items remembered at once; beyond it the memory starts over."""


class AvailabilityCache:
    """Remembers for each item whether it may come back."""

    def __init__(self) -> None:
        self._answers: dict[int, bool] = {}
        self._fresh_until: dict[int, float] = {}

    def may(self, item: int) -> bool:
        """Whether units are held that nobody has paid for, as of about a second ago."""
        if time.monotonic() < self._fresh_until.get(item, 0.0):
            return self._answers.get(item, False)
        if len(self._fresh_until) >= MOST_ITEMS:
            self._answers.clear()
            self._fresh_until.clear()
        # One request asks again; those that come meanwhile get what is known.
        self._fresh_until[item] = time.monotonic() + FRESH
        try:
            answer = services.may_come_back(item)
        except Error:
            # Promise nothing while the database is away; the refusal stands without it.
            answer = False
        self._answers[item] = answer
        return answer


@cache
def availability_cache() -> AvailabilityCache:
    """This process's."""
    return AvailabilityCache()
