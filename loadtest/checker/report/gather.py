"""Gather a report's data from the files of a run, in one pass and a few bytes for each call."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

from loadtest.checker import snapshot
from loadtest.checker.report.headline import Pace
from loadtest.fault_log import Injected, read_faults
from loadtest.files import RunFiles
from loadtest.history import FAIL, INFO, LATE, NEVER, OK, Operation, events, operations

# Bins of a timeline: as many as a chart can show.
BINS = 240
# Width of a bin in a short run, in ns.
_WIDTH = 50_000_000


class Latencies:
    """Durations in ms."""

    def __init__(self, durations: Iterable[float] = ()) -> None:
        self._sorted = array("d", sorted(durations))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._sorted)

    @property
    def longest(self) -> float:
        """Return the longest one; 0 without any."""
        return self._sorted[-1] if self._sorted else 0.0

    def percentile(self, share: float) -> float | None:
        """Return the ms that this share (0 to 1) stayed within; None without any."""
        last = len(self._sorted) - 1
        return self._sorted[min(int(share * len(self._sorted)), last)] if self._sorted else None


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers in a span of time: how many were ok, fail and info, and how long they took."""

    counts: list[int]
    latencies: Latencies


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bins of equal width (ns) from `origin` on."""

    origin: int
    width: int
    bins: list[Bin]


class Purchases:
    """The attempts to purchase, 17 bytes each.

    Attributes:
        delays: ms of the answers in an open loop, from the intended time of the request.
    """

    def __init__(self) -> None:
        self.delays = array("d")
        self._at, self._waited, self._outcomes = array("q"), array("d"), bytearray()

    def add(self, call: Operation, moment: int) -> None:
        """Add an attempt by the moment of its answer, or that of its request if there is none."""
        waited = (call.end - (call.due or call.start)) / 1e6 if call.end != NEVER else nan
        self._at.append(moment)
        self._waited.append(waited)
        self._outcomes.append(_OUTCOMES.index(call.outcome))
        if call.due is not None:
            self.delays.extend([waited] if call.end != NEVER else [])

    @property
    def latencies(self) -> Latencies:
        """The durations of all answers; in an open loop, of those that were due at some time."""
        return Latencies(self.delays or (delay for delay in self._waited if not isnan(delay)))

    def timeline(self, origin: int) -> Timeline:
        """Return them by time from a moment on, which is the first or an earlier one."""
        last = max(self._at, default=origin) - origin
        width = max(_WIDTH, last // BINS + 1)
        counts = [[0, 0, 0] for _ in range(last // width + 1)]
        waits = [array("d") for _ in counts]
        for at, waited, outcome in zip(self._at, self._waited, self._outcomes, strict=True):
            number = (at - origin) // width
            counts[number][outcome] += 1
            if not isnan(waited):
                waits[number].append(waited)
        bins = [Bin(n, Latencies(ms)) for n, ms in zip(counts, waits, strict=True)]
        return Timeline(origin, width, bins)


_OUTCOMES = (OK, FAIL, INFO)

# Kinds of answers that are listed; a broken shop may produce thousands.
_MOST_KINDS = 60
_OTHERS = ("…", "others", "")


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
        answers: number of each (call, answer, outcome).
        due: buyers of an open loop, who meant to come at some moment.
        late: those of them who began late, because every user was busy.
        pace: the answers given while the sale was on.
    """

    start: int
    end: int
    purchases: Purchases = field(default_factory=Purchases)
    answers: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    stock: list[Stock] = field(default_factory=list)
    faults: list[Injected] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)
    due: int = 0
    late: int = 0

    @property
    def open_loop(self) -> bool:
        """Whether buyers arrived independently of the shop's speed."""
        return self.due > 0


def gather(files: RunFiles) -> Evidence:
    """Read a run.

    Raises `HistoryError`, `SnapshotError` or `FaultLogError` for files that cannot be parsed,
    `OSError` for those that cannot be read.
    """
    histories = files.histories()
    start = next((line.time for line in events(*histories)), 0)
    evidence = Evidence(start, start)
    for operation in operations(*histories):
        _count(evidence, operation)
    evidence.stock = _stock(files)
    evidence.faults = list(read_faults(files.faults))
    ends = (fault.end for fault in evidence.faults)
    evidence.end = max(evidence.end, start + 1, *ends)
    return evidence


def stock_so_far(files: RunFiles) -> Evidence | None:
    """Read the stock of a run that goes on; None if there is nothing yet, or not at this moment."""
    try:
        stock = _stock(files)
    except (snapshot.SnapshotError, OSError):
        return None
    return Evidence(stock[0].at, stock[-1].at, stock=stock) if len(stock) > 1 else None


def _count(evidence: Evidence, operation: Operation) -> None:
    evidence.pace.add(operation)
    if operation.due is not None:
        evidence.due += 1
        evidence.late += operation.start - operation.due > LATE * 1e9
    answer = str(operation.status) if operation.outcome == OK else operation.code
    kind = (operation.op, answer or str(operation.status or "no answer"), operation.outcome)
    known = kind in evidence.answers or len(evidence.answers) < _MOST_KINDS
    evidence.answers[kind if known else _OTHERS] += 1
    moment = operation.end if operation.end != NEVER else operation.start
    evidence.end = max(evidence.end, moment)
    if operation.op == "order":
        evidence.purchases.add(operation, moment)


def _stock(files: RunFiles) -> list[Stock]:
    paths = [*files.during(), *([files.final] if files.final.exists() else [])]
    return sorted((_stock_of(path) for path in paths), key=lambda stock: stock.at)


def _stock_of(path: Path) -> Stock:
    header, rows = snapshot.read(path)
    sums = [0, 0, 0, 0]
    for row in rows:
        if isinstance(row, snapshot.Item):
            figures = (row.total, row.available, row.held, row.confirmed)
            sums = [a + b for a, b in zip(sums, figures, strict=True)]
    return Stock(header.taken_at, *sums)
