"""When a property was broken: the call that a finding's evidence describes.

Evidence is text for people, which names keys, carts, orders, buyers and times of the history. The
call that has most of them in common with a piece of evidence is the one that it is about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.checker import FAIL, Verdict, snapshot
from loadtest.history import NEVER, OK, Operation, operations

WORD = re.compile(r"[\w.-]*\w")
ORDER = re.compile(r"\border ([\w-]+)")
SNAPSHOT = re.compile(r"\bsnapshot (\d+)")

STOCK = frozenset({"P1", "P2", "P6"})
"""Properties that name no call: the answer that promised more than there was breaks them."""


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


@dataclass(slots=True)
class _Clue:
    """A piece of evidence, and the call that fits it best so far."""

    property: str
    name: str
    text: str
    words: frozenset[str]
    orders: frozenset[str]
    score: int = 0
    call: Operation | None = None

    def compare(self, call: Operation) -> None:
        """Keep the call if it fits better, or as well and ended later."""
        score = self._score(call)
        if score and (score, call.end) >= (self.score, self.call.end if self.call else 0):
            self.score, self.call = score, call

    def _score(self, call: Operation) -> int:
        words = self.words
        about = 4 * (call.key in words) + 4 * (bool(call.cart) and call.cart in words)
        about += 3 * (call.order in self.orders) + 2 * (call.buyer in words)
        if not about or call.end == NEVER:
            return 0
        times = (str(call.start) in words) + (str(call.end) in words)
        # A purchase's op is a word of most evidence.
        told = str(call.status), call.op if call.op != "order" else ""
        precise = times + (bool(call.code) and call.code in words)
        return about + 4 * precise + sum(each in words for each in told)


@dataclass(slots=True)
class _Sold:
    """Units promised of each item, against what there was."""

    units: Counter[str]
    beyond: Operation | None = None
    _promised: Counter[str] = field(default_factory=Counter)
    _keys: set[str] = field(default_factory=set)

    def count(self, call: Operation) -> None:
        """Count an answer; note the first that promises more than there is."""
        item = call.item or ""
        if call.outcome != OK or item not in self.units:
            return
        if call.op == "restock":
            self.units[item] += call.quantity
        elif call.op == "order" and call.key not in self._keys:
            self._keys.add(call.key)
            self._promised[item] += call.quantity
            if self.beyond is None and self._promised[item] > self.units[item]:
                self.beyond = call


def find_marks(
    verdict: Verdict,
    histories: Sequence[str | Path],
    *,
    final: str | Path | None = None,
    during: Sequence[str | Path] = (),
) -> list[Mark]:
    """Find when each broken property was broken, as far as its evidence tells.

    Args:
        verdict: with its findings.
        histories: of the run.
        final: the final snapshot.
        during: the snapshots taken during the run, in their order.

    Returns:
        Marks sorted by time; none if no property is broken.

    Raises:
        HistoryError, SnapshotError: a file cannot be understood.
        OSError: it cannot be read.
    """
    clues = list(_clues(verdict))
    if not clues:
        return []
    sold = _Sold(_opening(final, histories))
    for call in operations(*histories):
        sold.count(call)
        for clue in clues:
            clue.compare(call)
    found: dict[tuple[str, int], Mark] = {}
    for clue in clues:
        if (mark := _mark(clue, sold.beyond, during)) is not None:
            # One mark where several pieces of evidence are about one moment.
            found.setdefault((mark.property, mark.at), mark)
    return sorted(found.values(), key=lambda mark: mark.at)


def first_beyond(histories: Sequence[str | Path], units: Counter[str]) -> Operation | None:
    """Return the first answer that promises more of an item than there is, if any.

    Args:
        histories: of the run.
        units: what there is of each item, by its id.
    """
    sold = _Sold(units)
    for call in operations(*histories):
        sold.count(call)
    return sold.beyond


def units_for_sale(final: str | Path, histories: Sequence[str | Path]) -> int | None:
    """Return how many units there were to sell; None if some were added or came back.

    Raises:
        HistoryError, SnapshotError, OSError: as `find_marks`.
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


def _clues(verdict: Verdict) -> Iterator[_Clue]:
    for finding in verdict.properties:
        if finding.verdict == FAIL:
            for text in finding.evidence:
                words, orders = frozenset(WORD.findall(text)), frozenset(ORDER.findall(text))
                yield _Clue(finding.id, finding.name, text, words, orders)


def _opening(final: str | Path | None, histories: Sequence[str | Path]) -> Counter[str]:
    """Return the units of each item before its restocks."""
    units: Counter[str] = Counter()
    if final is None:
        return units
    _, rows = snapshot.read(final)
    units.update({row.id: row.total for row in rows if isinstance(row, snapshot.Item)})
    for call in operations(*histories):
        if call.op == "restock" and call.outcome == OK and call.item and call.item in units:
            units[call.item] -= call.quantity
    return units


def _mark(clue: _Clue, beyond: Operation | None, during: Sequence[str | Path]) -> Mark | None:
    if clue.call is not None:
        return Mark(clue.property, clue.name, clue.call.end, clue.text, clue.call.call)
    seen = _seen(clue, during)
    # The books of a moment, or the answer that promised too much: whichever was first.
    if clue.property in STOCK and beyond and (seen is None or beyond.end <= seen):
        return Mark(clue.property, clue.name, beyond.end, clue.text, beyond.call)
    return None if seen is None else Mark(clue.property, clue.name, seen, clue.text)


def _seen(clue: _Clue, during: Sequence[str | Path]) -> int | None:
    """Return when the snapshot was taken that the evidence names; None if it names none."""
    named = SNAPSHOT.search(clue.text)
    number = int(named[1]) if named else 0
    if not 1 <= number <= len(during):
        return None
    header, _ = snapshot.read(during[number - 1])
    return header.taken_at
