"""Figures of a run beside its verdict, in one pass over the history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.faults.chaos import Injected
from loadtest.history import OK, operations

WRITES = frozenset({"order", "payment", "cancel", "refund"})
"""Calls that need the database."""


@dataclass(slots=True)
class Hindsight:
    """What is known afterwards.

    Attributes:
        operations: calls in the history.
        last_sale: when the last purchase was accepted, in ns of the monotonic clock; 0 if none was.
        recoveries: of each fault, seconds from its end to the next ok; None if there was none.
    """

    operations: int = 0
    last_sale: int = 0
    recoveries: list[float | None] = field(default_factory=list)


def look_back(histories: Sequence[Path], injected: Sequence[Injected]) -> Hindsight:
    """Read the history once."""
    seen, oks = Hindsight(), []
    for call in operations(*histories):
        seen.operations += 1
        if call.outcome == OK and call.op in WRITES:
            oks.append(call.end)  # finished calls come in the order of their ends
            if call.op == "order":
                seen.last_sale = call.end
    for fault in injected:
        place = bisect_left(oks, fault.end)
        found = oks[place] - fault.end if place < len(oks) else None
        seen.recoveries.append(None if found is None else round(found / 1e9, 2))
    return seen
