"""Gather a report's data from the files of a run, in one pass and bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.checker import snapshot
from loadtest.checker.evidence import read_faults
from loadtest.history import LATE, NEVER, OK, Operation, events, operations
from loadtest.report.bins import Latencies, Timeline
from loadtest.report.headline import Pace

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


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault, with times in ns; `error` says why injection failed."""

    name: str
    start: int
    end: int
    did: str = ""
    error: str = ""


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
    faults: list[Fault] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)

    @property
    def open_loop(self) -> bool:
        """Whether buyers arrived independently of the shop's speed."""
        return self.delays.count > 0


def gather(
    histories: Sequence[str | Path],
    *,
    during: Sequence[str | Path] = (),
    final: str | Path | None = None,
    faults: str | Path | None = None,
) -> Evidence:
    """Read a run; the arguments are those of `loadtest.checker.judge`.

    Raises `HistoryError`, `SnapshotError` or `FaultLogError` for files that cannot be parsed,
    `OSError` for those that cannot be read.
    """
    start = next((line.time for line in events(*histories)), 0)
    evidence = Evidence(start, start, Timeline(start))
    for operation in operations(*histories):
        _count(evidence, operation)
    evidence.stock = _stock(_thinned(during), final)
    evidence.faults = [
        Fault(each.fault, each.start, each.end, _told(each.did), each.error)
        for each in (read_faults(Path(faults)) if faults else ())
    ]
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


def _thinned(paths: Sequence[str | Path]) -> Sequence[str | Path]:
    return paths[:: 1 + len(paths) // MAX_POINTS]


def _stock(during: Iterable[str | Path], final: str | Path | None) -> list[Stock]:
    paths = [*during, *([final] if final else [])]
    return sorted((_stock_of(path) for path in paths), key=lambda stock: stock.at)


def _stock_of(path: str | Path) -> Stock:
    header, rows = snapshot.read(path)
    sums = [0, 0, 0, 0]
    for row in rows:
        if isinstance(row, snapshot.Item):
            figures = (row.total, row.available, row.held, row.confirmed)
            sums = [a + b for a, b in zip(sums, figures, strict=True)]
    return Stock(header.taken_at, *sums)


def _told(did: object) -> str:
    """Summarise what was done: lists by their length."""
    if not isinstance(did, dict):
        return str(did)
    short = ((name, len(what) if isinstance(what, list) else what) for name, what in did.items())
    return ", ".join(f"{name}: {what}" for name, what in short)
