"""When the buyers of an open loop come: at times of their own, however slow the shop is."""

from __future__ import annotations

import time
from random import Random

# Starting later than this after the intended moment is said, in seconds. Shorter delays are the
# scheduler's.
LATE = 0.1


class Arrivals:
    """A Poisson process: gaps drawn from an exponential distribution, by a seed.

    As many buyers are drawn as are asked for. Each is played by a user that is free; if all are
    busy, the buyer starts late, which counts in their latency and in `late`.
    """

    def __init__(self, rate: float, random: Random, opens_at: float) -> None:
        """`rate` in buyers a second; `opens_at` on the monotonic clock, in seconds."""
        self.drawn = 0
        self.late = 0
        self._rate = rate
        self._random = random
        self._opens_at = opens_at
        self._next: float | None = None

    def wait(self) -> tuple[int, int]:
        """Wait until the next buyer is due: their number, and when that was in ns (monotonic)."""
        number, due = self.drawn, self._draw()
        left = due - time.monotonic()
        if left > 0:
            time.sleep(left)
        elif left < -LATE:
            self.late += 1
        return number, int(due * 1e9)

    def overdue(self, most: int | None) -> int:
        """How many more buyers would have come by now, of `most` (None: no bound). Draws on."""
        number, now = 0, time.monotonic()
        while (most is None or number < most) and self._draw() < now:
            number += 1
        return number

    def _draw(self) -> float:
        # The first one counts from the opening, or from when the first user is there for it.
        last = max(self._opens_at, time.monotonic()) if self._next is None else self._next
        self._next = last + self._random.expovariate(self._rate)
        self.drawn += 1
        return self._next
