"""Counters of this process, which a dashboard can sum over processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Metrics:
    """Counters and timers.

    Increments are not locked, which keeps the hot path free of cost: threads may lose a count.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()

    def count(self, name: str, by: float = 1) -> None:
        """Add to a counter."""
        self.counters[name] += by  # type: ignore[assignment]  # Counter adds floats as well

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time a block as ``<name>_seconds`` and ``<name>_count``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.count(f"{name}_seconds", time.perf_counter() - start)
            self.count(f"{name}_count")

    def read(self) -> dict[str, float]:
        """Return all counters by name."""
        return dict(self.counters)


metrics = Metrics()
