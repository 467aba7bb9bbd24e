"""Figures of a run beside its verdict, in one pass over the history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from loadtest.checker.properties.recovery import RIGHTLY_REFUSED, WRITES
from loadtest.faults.chaos import Injected
from loadtest.history import NEVER, OK, operations
from loadtest.report.headline import Pace, Speed


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
