"""What a proof has found, and figures beside its verdict."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from typing import Any

from loadtest.checker import Rate, Verdict
from loadtest.checker.properties.recovery import RIGHTLY_REFUSED, WRITES
from loadtest.faults import Injected
from loadtest.history import NEVER, OK, operations
from loadtest.report.headline import Pace, Speed, headline
from loadtest.steps import RunPlan


@dataclass(slots=True)
class RunStatistics:
    """What is known afterwards.

    Attributes:
        operations: calls in the history.
        last_sale: when the last purchase was accepted, in ns of the monotonic clock; 0 if none was.
        sold_out: when the main sale was sold out: the last answer to an accepted purchase that was
            sent before a buyer heard "sold out", in ns; 0 if there was none.
        speed: of the answers while the sale was on; None if nothing was sold.
        recoveries: of each fault, seconds to the next ok as P12 counts them: from its end, or from
            when a buyer then asked for units that were available; None if there was none.
        after_loss: of each fault that takes a server away, seconds from then to the end of the
            first accepted purchase that began after it; None if there was none.
    """

    operations: int = 0
    last_sale: int = 0
    sold_out: int = 0
    speed: Speed | None = None
    recoveries: list[float | None] = field(default_factory=list)
    after_loss: list[float | None] = field(default_factory=list)


def run_statistics(
    histories: Sequence[Path], injected: Sequence[Injected], main: str
) -> RunStatistics:
    """Read the history once.

    Args:
        main: id of the main sale.
    """
    seen, pace, oks, asked, sold_out, accepted = RunStatistics(), Pace(), [], [], NEVER, []
    bought: list[tuple[int, int]] = []
    for call in operations(*histories):
        seen.operations += 1
        pace.add(call)
        if call.op in WRITES and call.code not in RIGHTLY_REFUSED:
            asked.append(call.start)
        if call.outcome == OK and call.op in WRITES:
            oks.append(call.end)  # finished calls come in the order of their ends
            if call.op == "order":
                seen.last_sale = call.end
                bought.append((call.start, call.end))
                if call.sale == main and call.status == HTTPStatus.CREATED:
                    accepted.append((call.start, call.end))
        if call.code == "sold_out" and call.sale == main:
            sold_out = min(sold_out, call.end)
    # Who was told "sold out" may hear it before the last buyers hear that they were in time.
    in_time = [end for start, end in accepted if start < sold_out != NEVER]
    seen.sold_out = max(in_time, default=0)
    seen.speed = pace.speed()
    asked.sort()
    for fault in injected:
        served, since = _first(oks, fault.end), _first(asked, fault.end)
        wait = None if served is None else max(0, served - max(fault.end, since or 0))
        seen.recoveries.append(None if wait is None else round(wait / 1e9, 2))
        seen.after_loss.append(_after_loss(bought, fault.lost_at))
    return seen


def _after_loss(bought: Sequence[tuple[int, int]], lost_at: int | None) -> float | None:
    ends = (end for start, end in bought if lost_at is not None and start >= lost_at)
    first = min(ends, default=None)
    return None if first is None or lost_at is None else round((first - lost_at) / 1e9, 2)


def _first(moments: Sequence[int], end: int) -> int | None:
    place = bisect_left(moments, end)
    return moments[place] if place < len(moments) else None


NEED_SERVERS = frozenset({"P10", "P12", "P13", "P19"})
"""Properties that no shop can have while its servers stay broken."""


@dataclass(slots=True)
class Result:
    """The outcome of a proof.

    Attributes:
        verdict: of the checker; None if there was nothing to judge.
        reason: why there is no verdict.
        seconds: from the opening to the last accepted purchase.
        unsettled: why the servers had not recovered from the faults at the end; empty if they had.
        rebuilt: what the bed's operator did, in sentences.
        sold_out_after: seconds from the opening until the sale was sold out; 0 if it never was.
        speed: of the answers while the sale was on; None if nothing was sold.
        operations: calls of the buyers.
        faults: what was injected, as in the fault log.
        recoveries: of each of these, seconds to the first ok; None if no buyer was served again.
        after_loss: of each of these, seconds from the loss of a server to the first accepted
            purchase that began after it; None if it takes none away.
        not_injected: what could not be, and why.
        late: buyers of an open loop that began late, because every user was busy; None if unknown.
        unstarted: buyers of an open loop that were due and never began; None likewise.
        problems: errors in the shop's log, the first distinct ones; none if the verdict is pass.
        log: the records of these errors; None if there is no file that outlives the proof.
    """

    sale: int
    verdict: Verdict | None
    seconds: float
    reason: str = ""
    unsettled: str = ""
    rebuilt: list[str] = field(default_factory=list)
    sold_out_after: float = 0.0
    speed: Speed | None = None
    operations: int = 0
    faults: list[Injected] = field(default_factory=list)
    recoveries: list[float | None] = field(default_factory=list)
    after_loss: list[float | None] = field(default_factory=list)
    not_injected: list[Injected] = field(default_factory=list)
    late: int | None = None
    unstarted: int | None = None
    problems: list[str] = field(default_factory=list)
    log: Path | None = None

    def rates(self, fault: Injected, *, during: bool = False) -> dict[str, Rate]:
        """The rates of good answers after a fault, of the API and of pages; empty if not judged.

        Args:
            during: from the fault's begin until the shop should have recovered, instead of after.
        """
        for each in self.verdict.aftermaths if self.verdict else []:
            if each.start == fault.start:
                return each.during if during else each.rates
        return {}

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; a fault that was asked for and not injected proves nothing."""
        if self.verdict is None:
            return "unknown"
        if self.verdict.verdict == "pass" and self.reason:
            return "unknown"
        failed = {each.id for each in self.verdict.properties if each.verdict == "fail"}
        if self.unsettled and failed <= NEED_SERVERS:
            return "unknown"
        return self.verdict.verdict

    def headline(self, buyers: int) -> list[str]:
        """Return the parts of the closing line."""
        counts = self.verdict.counts if self.verdict else {}
        return headline(self.outcome, buyers, counts, self.speed, len(self.faults))

    @property
    def pace(self) -> str:
        """When the sale was sold out, or when the last purchase was accepted."""
        if self.sold_out_after:
            return f"sold out {self.sold_out_after:.2f} s after the opening"
        return f"last purchase accepted {self.seconds:.2f} s after the opening"

    def to_json(self, plan: RunPlan) -> dict[str, Any]:
        """The result as ``prove --json`` writes it."""
        judged = self.verdict.to_json() if self.verdict else {"properties": [], "counts": {}}
        return {
            "verdict": self.outcome,
            "headline": self.headline(plan.buyers),
            "reason": self.reason,
            "strategy": plan.strategy,
            "seed": plan.seed,
            "mix": plan.mix,
            "buyers": plan.buyers,
            "stock": plan.stock,
            "sale": self.sale,
            "faults": [
                {
                    **fault.to_json(),
                    "recovery": recovery,
                    "after_loss": after_loss,
                    "during": _document(self.rates(fault, during=True)),
                    "aftermath": _document(self.rates(fault)),
                }
                for fault, recovery, after_loss in zip_longest(
                    self.faults, self.recoveries, self.after_loss
                )
            ],
            "not_injected": [fault.to_json() for fault in self.not_injected],
            "left_out": dict(plan.left_out),
            "unsettled": self.unsettled,
            "rebuilt": self.rebuilt,
            "operations": self.operations,
            "arrivals": plan.arrivals,
            "late": self.late,
            "unstarted": self.unstarted,
            "minutes": plan.minutes,
            "properties": judged["properties"],
            "counts": judged["counts"],
            "problems": self.problems,
            "log": str(self.log) if self.log else None,
            "seconds": round(self.seconds, 2),
            "requests_per_second": round(self.speed.rate, 1) if self.speed else None,
            "p99_ms": round(self.speed.p99, 1) if self.speed else None,
            "repeat": plan.repeat,
        }


def _document(rates: dict[str, Rate]) -> dict[str, dict[str, int]]:
    return {kind: rate._asdict() for kind, rate in rates.items()}
