"""What this process has done, in numbers that a dashboard can add up over processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Metrics:
    """Counters, and sums of seconds with how often they were taken.

    Increments are not locked: on threads a count may be missed, which is the price of costing
    nothing in the hot path.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()

    def count(self, name: str, by: float = 1) -> None:
        """Add to a counter."""
        self.counters[name] += by  # type: ignore[assignment]  # Counter adds floats as well

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time a block: ``<name>_seconds`` and ``<name>_count``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.count(f"{name}_seconds", time.perf_counter() - start)
            self.count(f"{name}_count")

    def read(self) -> dict[str, float]:
        """All counters by name."""
        return dict(self.counters)


metrics = Metrics()
