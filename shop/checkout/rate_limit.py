"""A rate limit per buyer and process: token buckets (Turner, 1986).

It keeps bots from filling the queue that buyers wait in. Processes do not share it: asking Redis
per request would cost more than the requests that it refuses. The total limit is the limit times
the number of processes.
"""

from __future__ import annotations

import time
from functools import cache

from django.conf import settings

MAX_BUYERS = 50_000
"""Buckets per generation, about 10 MB; older ones are forgotten, which makes them full."""


class Limiter:
    """Lets each buyer through at a rate, with bursts of twice that rate.

    Args:
        rate: requests per second; 0 means no limit.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._burst = 2 * rate
        # Two generations: when the young one is full it replaces the old one, whose buyers have not
        # returned since. This needs no list of ages.
        self._young: dict[int, tuple[float, float]] = {}
        self._old: dict[int, tuple[float, float]] = {}

    def allows(self, buyer: int) -> bool:
        """Whether the buyer may send a request now; if so, count it."""
        if not self._rate:
            return True
        now = time.monotonic()
        tokens, since = self._young.get(buyer) or self._old.get(buyer) or (self._burst, now)
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        allowed = tokens >= 1
        self._young[buyer] = (tokens - 1 if allowed else tokens, now)
        if len(self._young) > MAX_BUYERS:
            self._young, self._old = {}, self._young
        return allowed


@cache
def limiter() -> Limiter:
    """Return the limiter of this process."""
    return Limiter(settings.SHOP_RATE_LIMIT)
