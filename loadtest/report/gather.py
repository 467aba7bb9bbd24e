"""Gather a report's data from the files of a run, in one pass and bounded memory.

Time is counted in widening bins, latency in buckets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import log10
from pathlib import Path

from loadtest.checker import snapshot
from loadtest.checker.evidence import LoggedFault, read_faults
from loadtest.files import RunFiles
from loadtest.history import LATE, NEVER, OK, Operation, events, operations
from loadtest.report.headline import Pace

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


# Kinds of answers that are listed; a broken shop may produce thousands.
_MOST_KINDS = 60
_OTHERS = ("…", "others", "")
# Points of the stock's curve: as many as a chart can show.
MAX_POINTS = 400


@dataclass(frozen=True, slots=True)
class Stock:
    """The sum of all items at a moment, in ns and units."""

    at: int
    total: int
    available: int
    held: int
    confirmed: int


@dataclass(slots=True)
class Evidence:
    """The data of a report. Times are ns of the history's clock.

    Attributes:
        timeline: purchases by the time of their answer.
        latencies: of all answered purchases.
        late: buyers of an open loop who began late, because every user was busy.
        delays: latencies from the intended time of the request; empty in a closed loop.
        answers: number of each (call, answer, outcome).
        pace: the answers given while the sale was on.
    """

    start: int
    end: int
    timeline: Timeline
    latencies: Latencies = field(default_factory=Latencies)
    delays: Latencies = field(default_factory=Latencies)
    late: int = 0
    answers: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    stock: list[Stock] = field(default_factory=list)
    faults: list[LoggedFault] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)

    @property
    def open_loop(self) -> bool:
        """Whether buyers arrived independently of the shop's speed."""
        return self.delays.count > 0


def gather(files: RunFiles) -> Evidence:
    """Read a run.

    Raises `HistoryError`, `SnapshotError` or `FaultLogError` for files that cannot be parsed,
    `OSError` for those that cannot be read.
    """
    histories = files.histories()
    start = next((line.time for line in events(*histories)), 0)
    evidence = Evidence(start, start, Timeline(start))
    for operation in operations(*histories):
        _count(evidence, operation)
    evidence.stock = _stock(files)
    evidence.faults = list(read_faults(files.faults))
    ends = (fault.end for fault in evidence.faults)
    evidence.end = max(evidence.end, start + 1, *ends)
    return evidence


def _count(evidence: Evidence, operation: Operation) -> None:
    evidence.pace.add(operation)
    answer = str(operation.status) if operation.outcome == OK else operation.code
    kind = (operation.op, answer or str(operation.status or "no answer"), operation.outcome)
    known = kind in evidence.answers or len(evidence.answers) < _MOST_KINDS
    evidence.answers[kind if known else _OTHERS] += 1
    ended = operation.end != NEVER
    moment = operation.end if ended else operation.start
    evidence.end = max(evidence.end, moment)
    if operation.op != "order":
        return
    bin_ = evidence.timeline.at(moment)
    setattr(bin_, operation.outcome, getattr(bin_, operation.outcome) + 1)
    if ended:
        waited = (operation.end - (operation.due or operation.start)) / 1e6
        bin_.latencies.add(waited)
        evidence.latencies.add((operation.end - operation.start) / 1e6)
        if operation.due is not None:
            evidence.delays.add(waited)
    if operation.due is not None and operation.start - operation.due > LATE * 1e9:
        evidence.late += 1


def _stock(files: RunFiles) -> list[Stock]:
    during = files.during()
    thinned = during[:: 1 + len(during) // MAX_POINTS]
    paths = [*thinned, *([files.final] if files.final.exists() else [])]
    return sorted((_stock_of(path) for path in paths), key=lambda stock: stock.at)


def _stock_of(path: Path) -> Stock:
    header, rows = snapshot.read(path)
    sums = [0, 0, 0, 0]
    for row in rows:
        if isinstance(row, snapshot.Item):
            figures = (row.total, row.available, row.held, row.confirmed)
            sums = [a + b for a, b in zip(sums, figures, strict=True)]
    return Stock(header.taken_at, *sums)
