"""How often one buyer may ask: a bucket of tokens each, in every process.

It keeps a bot from filling the queue that buyers wait in. Not shared between processes: asking
Redis about every request would cost more than the request it refuses, and the limit is a coarse
one anyway (times the number of processes). Algorithm: token bucket (Turner, 1986).
"""

from __future__ import annotations

import time
from functools import cache

from django.conf import settings

MOST_BUYERS = 50_000
"""Buckets kept in one generation, about 10 MB; older ones are forgotten, which is to say full."""


class Limiter:
    """Lets each buyer through at a rate, with a burst of twice as much.

    Args:
        rate: requests a second; 0 lets everything through.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._burst = 2 * rate
        # Two generations: when the young one is full it becomes the old one, and the old one,
        # whose buyers have not been seen since, is dropped. No list of ages to keep.
        self._young: dict[int, tuple[float, float]] = {}
        self._old: dict[int, tuple[float, float]] = {}

    def allows(self, buyer: int) -> bool:
        """Whether the buyer may ask now; if so, it is counted."""
        if not self._rate:
            return True
        now = time.monotonic()
        tokens, since = self._young.get(buyer) or self._old.get(buyer) or (self._burst, now)
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        allowed = tokens >= 1
        self._young[buyer] = (tokens - 1 if allowed else tokens, now)
        if len(self._young) > MOST_BUYERS:
            self._young, self._old = {}, self._young
        return allowed


@cache
def limiter() -> Limiter:
    """This process's limiter."""
    return Limiter(settings.SHOP_RATE_LIMIT)
