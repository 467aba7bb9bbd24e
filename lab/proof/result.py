"""What a proof has found, and figures next to its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from typing import Any

from loadtest.checker import Verdict
from loadtest.checker.report.headline import Pace, Speed, headline
from loadtest.fault_log import Injected
from loadtest.history import OK, operations
from loadtest.run_plan import RunPlan

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
        sold_out_after: seconds from the opening until the sale was sold out; 0 if it never was.
        speed: of the answers while the sale was on; None if nothing was sold.
        operations: calls of the buyers.
        faults: what was injected, as in the fault log.
        after_loss: of each of these, seconds from the loss of a server to the first accepted
            purchase that began after it; None if it takes none away.
        not_injected: what could not be, and why.
        late: buyers of an open loop that began late, because every user was busy; None if unknown.
        unstarted: buyers of an open loop that were due and never began; None likewise.
        document: the verdict as it is in its file; None if the proof did not come to one.
        log: of the shop's web processes; None if the verdict is pass, or if no file outlives the
            proof.
    """

    sale: int
    verdict: Verdict
    seconds: float = 0.0
    reason: str = ""
    unsettled: str = ""
    sold_out_after: float = 0.0
    speed: Speed | None = None
    operations: int = 0
    faults: list[Injected] = field(default_factory=list)
    after_loss: list[float | None] = field(default_factory=list)
    not_injected: list[Injected] = field(default_factory=list)
    late: int | None = None
    unstarted: int | None = None
    document: dict[str, Any] | None = None
    log: Path | None = None

    def count(self, histories: Sequence[Path], opening: float) -> None:
        """Fill in the figures that the history tells; the injected faults are known.

        Args:
            histories: of the buyers, without the calls that ask again.
            opening: of the main sale, in seconds on the monotonic clock.
        """
        pace, sold_out = Pace(), math.inf
        bought: list[tuple[int, int]] = []
        from_stock: list[tuple[int, int]] = []
        for call in operations(*histories):
            self.operations += 1
            pace.add(call)
            of_main = call.sale == str(self.sale)
            if call.op == "order" and call.outcome == OK:
                bought.append((call.start, call.end))
                if of_main and call.status == HTTPStatus.CREATED:
                    from_stock.append((call.start, call.end))
            if call.code == "sold_out" and of_main:
                sold_out = min(sold_out, call.end)
        self.speed = pace.speed()
        self.seconds = max(max((end for _, end in bought), default=0) / 1e9 - opening, 0.0)
        if sold_out < math.inf:
            # Some hear "sold out" before the last buyers hear that they were in time.
            in_time = [end for start, end in from_stock if start < sold_out]
            self.sold_out_after = max(max(in_time, default=0) / 1e9 - opening, 0.0)
        for fault in self.faults:
            lost_at = fault.lost_at if fault.lost_at is not None else math.inf
            after = min((end for start, end in bought if start >= lost_at), default=None)
            self.after_loss.append(None if after is None else round((after - lost_at) / 1e9, 2))

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; a fault that was asked for and not injected proves nothing."""
        if self.verdict.verdict == "pass" and self.reason:
            return "unknown"
        failed = {judged.id for judged in self.verdict.broken}
        if self.unsettled and failed <= NEED_SERVERS:
            return "unknown"
        return self.verdict.verdict

    def headline(self, buyers: int) -> list[str]:
        """Return the parts of the closing line."""
        return headline(self.outcome, buyers, self.verdict.counts, self.speed, len(self.faults))

    @property
    def pace(self) -> str:
        """When the sale was sold out, or when the last purchase was accepted."""
        if self.sold_out_after:
            return f"sold out {self.sold_out_after:.2f} s after the opening"
        return f"last purchase accepted {self.seconds:.2f} s after the opening"

    def to_json(self, plan: RunPlan) -> dict[str, Any]:
        """The result as ``prove --json`` writes it."""
        judged = self.verdict.to_json()
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
                {**fault.to_json(), "after_loss": after_loss}
                for fault, after_loss in zip_longest(self.faults, self.after_loss)
            ],
            "not_injected": [fault.to_json() for fault in self.not_injected],
            "left_out": dict(plan.left_out),
            "unsettled": self.unsettled,
            "operations": self.operations,
            "arrivals": plan.arrivals,
            "late": self.late,
            "unstarted": self.unstarted,
            "minutes": plan.minutes,
            "properties": judged["properties"],
            "counts": judged["counts"],
            "log": str(self.log) if self.log else None,
            "seconds": round(self.seconds, 2),
            "requests_per_second": round(self.speed.rate, 1) if self.speed else None,
            "p99_ms": round(self.speed.p99, 1) if self.speed else None,
            "repeat": plan.repeat,
        }
