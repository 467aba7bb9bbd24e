"""Count runs of any length in little memory: time in widening bins, latency in buckets."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log10

# Steps of a latency histogram per power of ten: neighbours differ by 12%.
_STEPS = 20
# From a tenth of a millisecond to ten minutes, in ms.
_SHORTEST = 0.1
_BUCKETS = 7 * _STEPS

# Bins of a timeline: as many as a chart can show. Longer runs get wider bins, not more.
BINS = 240
# Width of a bin at the start, in ns.
_WIDTH = 50_000_000


class Latencies:
    """A histogram of durations on a logarithmic scale."""

    __slots__ = ("buckets", "count", "longest")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS
        self.count = 0
        self.longest = 0.0

    def add(self, milliseconds: float) -> None:
        """Count one duration."""
        step = int(log10(milliseconds / _SHORTEST) * _STEPS) if milliseconds > _SHORTEST else 0
        self.buckets[min(step, _BUCKETS - 1)] += 1
        self.count += 1
        self.longest = max(self.longest, milliseconds)

    def merge(self, other: Latencies) -> None:
        """Add the counts of `other`."""
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.count += other.count
        self.longest = max(self.longest, other.longest)

    def percentile(self, share: float) -> float | None:
        """Return the ms that this share (0 to 1) stayed below, within 12%; None without any."""
        wanted, seen = share * self.count, 0
        for step, number in enumerate(self.buckets):
            seen += number
            if number and seen >= wanted:
                return min(edge(step + 1), self.longest)
        return None


def edge(step: int) -> float:
    """Return the lower edge of a bucket, in ms."""
    return float(_SHORTEST * 10 ** (step / _STEPS))


@dataclass(slots=True)
class Bin:
    """The answers in a span of time."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    def merge(self, other: Bin) -> None:
        """Add the counts of `other`."""
        self.ok += other.ok
        self.fail += other.fail
        self.info += other.info
        self.latencies.merge(other.latencies)


class Timeline:
    """Bins of equal width from `origin` (ns) on; neighbours are merged when there are too many."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.width = _WIDTH
        self.bins: list[Bin] = []

    def at(self, moment: int) -> Bin:
        """Return the bin of a moment in ns; earlier moments count at the origin."""
        number = max(moment - self.origin, 0) // self.width
        while number >= BINS:
            self._widen()
            number //= 2
        while number >= len(self.bins):
            self.bins.append(Bin())
        return self.bins[number]

    def _widen(self) -> None:
        for left, right in zip(self.bins[::2], self.bins[1::2], strict=False):
            left.merge(right)
        self.bins = self.bins[::2]
        self.width *= 2
