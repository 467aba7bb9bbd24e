"""The replay of a run as one JSON document, and the moments at which a property was broken.

    {"replay": 1, "title": "…", "all": 62000, "units": 100, "words": ["order", …],
     "calls": {"sent": […], "answered": […], "outcome": […], "op": […], "buyer": […], "code": […],
               "order": […], "quantity": […], "status": […]},
     "served": {"process": […], "queued": […], "begun": […], "committed": […], "batch": […]},
     "marks": [{"property": "P1", "name": "no oversell", "at": 81, "text": "…", "call": 7}],
     "faults": [{"name": "redis-killed", "start": 5, "end": 90}]}

Times are microseconds since the first request. Calls are columns, so that a request takes 60 bytes.
`op`, `buyer`, `code` and `order` are positions in `words`; `answered` is null where no answer came,
and `outcome` is 0 (accepted), 1 (refused) or 2 (unknown). `served` is null where the shop recorded
nothing, and each of its values where it did not record that call. `all` is the number of calls of
the run, of which the document may hold a part. `units` is what there was to sell; null where that
is not known, or where calls before the part are left out, so that it could not be compared.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from loadtest import json_lines
from loadtest.checker import Verdict, snapshot
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


def marks_of(verdict: Verdict) -> list[Mark]:
    """Return when each broken property was broken, as far as that is known, sorted by time."""
    found: dict[tuple[str, int], Mark] = {}
    for finding in verdict.broken:
        for problem in finding.problems:
            if problem.at is not None:
                # One mark where several problems are of one moment.
                mark = Mark(finding.id, finding.name, problem.at, problem.text, problem.call)
                found.setdefault((mark.property, mark.at), mark)
    return sorted(found.values(), key=lambda mark: mark.at)


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


def units_for_sale(files: RunFiles) -> int | None:
    """Return how many units there were to sell; None if some were added or came back.

    Raises:
        HistoryError, SnapshotError: a file cannot be understood.
        OSError: it cannot be read.
    """
    units = 0
    for row in snapshot.read(files.final)[1]:
        if isinstance(row, snapshot.Item):
            units += row.total
        elif isinstance(row, snapshot.Reservation) and (row.returned or row.state == "released"):
            return None
    calls = operations(*files.histories())
    if any(call.op == "restock" and call.outcome == OK for call in calls):
        return None
    return units


class ServedError(ValueError):
    """A line that cannot be read; says the file and the line."""


class Served(msgspec.Struct, frozen=True):
    """One purchase as the shop saw it. Times are ns."""

    key: str
    process: int
    queued: int
    begun: int | None
    committed: int
    batch: int | None


_DECODER = msgspec.json.Decoder(Served)

ServedByKey = dict[str, list[Served]]
"""The purchases by idempotency key; a key that was sent again has several."""


def read_served(paths: Iterable[Path]) -> ServedByKey:
    """Read the files of all processes.

    Raises:
        ServedError: a line is none of these.
        OSError: a file cannot be read.
    """
    found: defaultdict[str, list[Served]] = defaultdict(list)
    for path in paths:
        for _, served in json_lines.read(path, _DECODER, ServedError):
            found[served.key].append(served)
    return dict(found)


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
        marks: see `marks_of`. With them, the calls around the first mark of each property are
            taken; without, the first calls.
        units: what there was to sell.
        most: how many calls are taken.

    Raises:
        HistoryError, FaultLogError, ServedError: a file cannot be understood.
        OSError: it cannot be read.
    """
    taken = _Taken(_firsts(marks), most)
    for call in operations(*files.histories()):
        taken.add(call)
    calls = sorted(taken.calls(), key=lambda call: call.start)
    start = calls[0].start if calls else 0
    last = max((_end(call) for call in calls), default=0)
    number = {call.call: position for position, call in enumerate(calls)}
    served = read_served(files.served())
    words: dict[str, int] = {}
    return {
        "replay": VERSION,
        "title": title,
        "all": taken.seen,
        "units": units if taken.from_the_start else None,
        "calls": _columns(calls, start, words),
        "served": _served(calls, start, served) if served else None,
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
            {"name": each.fault, **_span(each, start, last)}
            for each in read_faults(files.faults)
            if each.end >= start and each.start <= last
        ],
        "words": list(words),
    }


def dump(document: Mapping[str, Any]) -> str:
    """Return the document as text that is safe inside an HTML script element."""
    return json.dumps(document, separators=(",", ":")).replace("</", "<\\/")


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
        found = (call for each in self.windows for call in (*each.before, *each.after))
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


def _served(calls: Sequence[Operation], start: int, served: ServedByKey) -> dict[str, Any]:
    """Return what the shop recorded of each call.

    Where some purchases are sold in batches, one without a batch was refused in the queue. Where
    none is, each had a transaction of its own.
    """
    found = [_of(call, served) for call in calls]
    batches = any(each.batch is not None for each in found if each)

    def at(moment: int | None) -> int | None:
        return None if moment is None else (moment - start) // 1000

    return {
        "process": [each and each.process for each in found],
        "queued": [each and at(each.queued) for each in found],
        "begun": [each and at(each.begun if batches else each.queued) for each in found],
        "committed": [each and at(each.committed) for each in found],
        "batch": [each and each.batch for each in found],
    }


def _of(call: Operation, served: ServedByKey) -> Served | None:
    """Return what the shop did for this attempt: the clocks are one, so that its times tell."""
    if call.op != "order" or call.cart:
        return None
    attempts = served.get(call.key, ())
    return next((one for one in attempts if call.start <= one.queued <= call.end), None)


def _end(call: Operation) -> int:
    return call.start if call.end == NEVER else call.end


def _span(fault: Injected, start: int, last: int) -> dict[str, int]:
    begin, end = max(fault.start, start), min(fault.end, last)
    return {"start": (begin - start) // 1000, "end": (end - start) // 1000}
