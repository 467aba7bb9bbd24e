"""When a property was broken, and what there was to sell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtest.checker import FAIL, Verdict, snapshot
from loadtest.history import OK, Operation, operations


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which a property was broken.

    Attributes:
        property: its id.
        name: of the property.
        at: ns of the history's clock.
        text: the evidence.
        call: id of the call that broke it; empty if no single one did.
    """

    property: str
    name: str
    at: int
    text: str
    call: str = ""


def marks_of(verdict: Verdict) -> list[Mark]:
    """Return when each broken property was broken, as far as that is known, sorted by time."""
    found: dict[tuple[str, int], Mark] = {}
    for finding in verdict.properties:
        for problem in finding.problems if finding.verdict == FAIL else ():
            if problem.at is not None:
                # One mark where several problems are of one moment.
                mark = Mark(finding.id, finding.name, problem.at, problem.text, problem.call)
                found.setdefault((mark.property, mark.at), mark)
    return sorted(found.values(), key=lambda mark: mark.at)


def first_beyond(histories: Sequence[str | Path], item: str, units: int) -> Operation | None:
    """Return the first answer that promises more of an item than these units, if any."""
    keys: set[str] = set()
    for call in operations(*histories):
        accepted = call.op == "order" and call.outcome == OK and call.item == item
        if accepted and call.key not in keys:
            keys.add(call.key)
            units -= call.quantity
            if units < 0:
                return call
    return None


def units_for_sale(final: str | Path, histories: Sequence[str | Path]) -> int | None:
    """Return how many units there were to sell; None if some were added or came back.

    Raises:
        HistoryError, SnapshotError: a file cannot be understood.
        OSError: it cannot be read.
    """
    units = 0
    for row in snapshot.read(final)[1]:
        if isinstance(row, snapshot.Item):
            units += row.total
        elif isinstance(row, snapshot.Reservation) and (row.returned or row.state == "released"):
            return None
    if any(call.op == "restock" and call.outcome == OK for call in operations(*histories)):
        return None
    return units
