"""The recording of one side of a duel as a JSON document, which the player reads.

    {"replay": 1, "title": "…", "all": 62000, "units": 100, "words": ["order", …],
     "calls": {"sent": […], "answered": […], "outcome": […], "op": […], "buyer": […], "code": […],
               "order": […], "quantity": […], "status": […]},
     "marks": [{"property": "P1", "name": "no oversell", "at": 81, "text": "…", "call": 7}],
     "faults": [{"name": "redis-killed", "start": 5, "end": 90}]}

Times are microseconds since the first request. Calls are columns, so that a request takes 60 bytes.
`op`, `buyer`, `code` and `order` are positions in `words`; `answered` is null where no answer came,
and `outcome` is 0 (accepted), 1 (refused) or 2 (unknown). `all` is the number of calls of the run,
of which the document may hold a part. `units` is what there was to sell; null where calls before
the part are left out, so that it could not be compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtest.fault_log import Injected, read_faults
from loadtest.files import RunFiles
from loadtest.history import NEVER, OK, Operation, operations


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


def first_beyond(files: RunFiles, item: str, units: int) -> Operation | None:
    """Return the first answer that promises more of an item than these units, if any."""
    keys: set[str] = set()
    for call in operations(*files.histories()):
        accepted = call.op == "order" and call.outcome == OK and call.item == item
        if accepted and call.key not in keys:
            keys.add(call.key)
            units -= call.quantity
            if units < 0:
                return call
    return None


VERSION = 1

MOST = 2_000
"""Calls of a document by default: 120 kB, within which a report stays a file to send by mail."""

BEFORE = 3, 4
"""The share of them before the first violation: what led to it says more than what followed."""

OUTCOMES = ("ok", "fail", "info")


def compose(
    files: RunFiles,
    *,
    title: str,
    marks: Sequence[Mark] = (),
    units: int | None = None,
    most: int = MOST,
) -> dict[str, Any]:
    """Compose a document.

    Args:
        files: of the run.
        title: what the player shows.
        marks: moments at which a property was broken. With them, the calls around the first
            mark of each property are taken; without, the first calls.
        units: what there was to sell.
        most: how many calls are taken.

    Raises:
        HistoryError, FaultLogError: a file cannot be understood.
        OSError: it cannot be read.
    """
    taken = _Taken(_firsts(marks), most)
    for call in operations(*files.histories()):
        taken.add(call)
    calls = sorted(taken.calls(), key=lambda call: call.start)
    start = calls[0].start if calls else 0
    last = max((_end(call) for call in calls), default=0)
    number = {call.call: position for position, call in enumerate(calls)}
    words: dict[str, int] = {}
    return {
        "replay": VERSION,
        "title": title,
        "all": taken.seen,
        "units": units if taken.from_the_start else None,
        "calls": _columns(calls, start, words),
        "marks": [
            {
                "property": mark.property,
                "name": mark.name,
                "at": (mark.at - start) // 1000,
                "text": mark.text,
                "call": number.get(mark.call),
            }
            for mark in marks
            if start <= mark.at <= last
        ],
        "faults": [
            {"name": fault.fault, **_span(fault, start, last)}
            for fault in read_faults(files.faults)
            if fault.end >= start and fault.start <= last
        ],
        "words": list(words),
    }


def _firsts(marks: Sequence[Mark]) -> list[int]:
    """Return when each property was first broken."""
    firsts: dict[str, int] = {}
    for mark in sorted(marks, key=lambda each: each.at):
        firsts.setdefault(mark.property, mark.at)
    return sorted(set(firsts.values()))


@dataclass(slots=True)
class _Window:
    """The last calls that ended before a moment, and the first after it."""

    at: int
    room: int
    before: deque[Operation]
    after: list[Operation] = field(default_factory=list)
    left_out: bool = False

    def add(self, call: Operation) -> None:
        if call.end <= self.at:
            self.left_out |= len(self.before) == self.before.maxlen
            self.before.append(call)
        elif len(self.after) < self.room:
            self.after.append(call)


class _Taken:
    """The calls of a document, taken from a stream in the order of their ends."""

    def __init__(self, moments: Sequence[int], most: int) -> None:
        each = most // max(1, len(moments))
        share, of = BEFORE
        before = each * share // of if moments else 0
        self.windows = [
            _Window(at, each - before, deque(maxlen=before)) for at in (moments or [-1])
        ]
        self.seen = 0

    def add(self, call: Operation) -> None:
        self.seen += 1
        for window in self.windows:
            window.add(call)

    def calls(self) -> list[Operation]:
        found = (call for window in self.windows for call in (*window.before, *window.after))
        return list({call.call: call for call in found}.values())

    @property
    def from_the_start(self) -> bool:
        """Whether no call is left out between the first and the last one taken."""
        window = self.windows[0]
        return len(self.windows) == 1 and not window.left_out


def _columns(calls: Sequence[Operation], start: int, words: dict[str, int]) -> dict[str, Any]:
    def word(text: str | None) -> int | None:
        return words.setdefault(text, len(words)) if text else None

    return {
        "sent": [(call.start - start) // 1000 for call in calls],
        "answered": [None if call.end == NEVER else (call.end - start) // 1000 for call in calls],
        "outcome": [OUTCOMES.index(call.outcome) for call in calls],
        "op": [word(call.op) for call in calls],
        "buyer": [word(call.buyer) for call in calls],
        "code": [word(call.code) for call in calls],
        "order": [word(call.order) for call in calls],
        "quantity": [call.quantity for call in calls],
        "status": [call.status for call in calls],
    }


def _end(call: Operation) -> int:
    return call.start if call.end == NEVER else call.end


def _span(fault: Injected, start: int, last: int) -> dict[str, int]:
    begin, end = max(fault.start, start), min(fault.end, last)
    return {"start": (begin - start) // 1000, "end": (end - start) // 1000}
