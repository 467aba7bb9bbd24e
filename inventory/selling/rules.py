"""The selling rule: which requests the stock can serve.

The only place that decides it. Pure functions: `batch` reads the levels and writes the grants.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from inventory.outcomes import (
    CartTicket,
    Granted,
    KeyReused,
    LimitReached,
    LineRefused,
    NoSuchItem,
    Purchase,
    SoldOut,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A purchase that was granted before, read from its reservation."""

    reservation: int
    item: int
    scope: int
    quantity: int

    def answer(self, purchase: Purchase, line: int = 0) -> Granted | KeyReused:
        """Repeat the first answer if the purchase is the same."""
        same = (purchase.item, purchase.scope, purchase.quantity)
        if same != (self.item, self.scope, self.quantity):
            return KeyReused()
        return Granted(purchase, self.reservation, replayed=True, line=line)


@dataclass(slots=True)
class Decision:
    """What to do for the tickets of a batch.

    Attributes:
        granted: tickets to write, in order of arrival, one per key.
        repeats: tickets that repeat a key of a granted one, each with that ticket.
        refused: tickets that were refused for want of units or by a limit. Without a lock of the
            items' rows these refusals are not final: units may be released meanwhile.
    """

    granted: list[CartTicket] = field(default_factory=list)
    repeats: list[tuple[CartTicket, CartTicket]] = field(default_factory=list)
    refused: list[CartTicket] = field(default_factory=list)

    def answer_repeats(self) -> None:
        """Answer repeated keys like their first ticket, if that has been written and opened."""
        for repeat, first in self.repeats:
            if isinstance(first.answer, list):
                repeat.answer = _repeat(repeat.request.lines, first.answer)


def _repeat(lines: Sequence[Purchase], first: Sequence[Granted]) -> list[Granted] | LineRefused:
    """Repeat the answer to a ticket of the same batch if the lines are the same as its own."""
    if [_identity(line) for line in lines] != [_identity(grant.purchase) for grant in first]:
        return LineRefused(0, KeyReused())
    return [
        Granted(
            grant.purchase, grant.reservation, replayed=True, opened=grant.opened, line=grant.line
        )
        for grant in first
    ]


def _identity(line: Purchase) -> tuple[int, UUID, int, int, int]:
    return line.buyer, line.key, line.item, line.scope, line.quantity


def decide(
    tickets: Sequence[CartTicket],
    available: MutableMapping[int, int],
    known: Mapping[tuple[int, UUID], Known],
    used: MutableMapping[tuple[int, int], int],
) -> Decision:
    """Decide tickets in order of arrival, each as a whole: all of its lines are granted or none.

    A ticket that does not fit is refused and the next one is tried, so the last units go to the
    first request that they suffice for. Limits include the grants of the same batch, and all lines
    of a ticket.

    Args:
        tickets: in order of arrival; refusals and replays are filled in.
        available: units that may be reserved, by item; an item that does not exist is missing.
            Lowered by each grant.
        known: earlier grants by (buyer, key).
        used: units that a subject already holds by (scope, subject), for a buyer's limit and for
            further quotas; absent means none. Raised by each grant.

    Raises:
        ValueError: a purchase is of less than one unit.
    """
    decision = Decision()
    first_of_key: dict[tuple[int, UUID], CartTicket] = {}
    for ticket in tickets:
        lines = ticket.request.lines
        keys = [(line.buyer, line.key) for line in lines]
        ticket.answer = None
        if len(set(keys)) < len(keys) or not known.keys().isdisjoint(keys):
            ticket.answer = _replay(lines, keys, known)
            continue
        if not first_of_key.keys().isdisjoint(keys):
            first = next(first_of_key[key] for key in keys if key in first_of_key)
            decision.repeats.append((ticket, first))
            continue
        ticket.answer = _take(lines, available, used)
        if ticket.answer is None:
            first_of_key.update(dict.fromkeys(keys, ticket))
            decision.granted.append(ticket)
        elif isinstance(ticket.answer, LineRefused):
            decision.refused.append(ticket)
    return decision


def _replay(
    lines: Sequence[Purchase],
    keys: Sequence[tuple[int, UUID]],
    known: Mapping[tuple[int, UUID], Known],
) -> list[Granted] | LineRefused:
    """Return the answer to keys of which some were used before, or are used twice here."""
    if len(set(keys)) < len(keys):
        twice = next(n for n, key in enumerate(keys) if key in keys[:n])
        return LineRefused(twice, KeyReused())
    replayed: list[Granted] = []
    for position, (line, key) in enumerate(zip(lines, keys, strict=True)):
        # A key that is new among known ones belongs to another cart.
        answer = known[key].answer(line, position) if key in known else KeyReused()
        if isinstance(answer, KeyReused):
            return LineRefused(position, answer)
        replayed.append(answer)
    return replayed


def _take(
    lines: Sequence[Purchase],
    available: MutableMapping[int, int],
    used: MutableMapping[tuple[int, int], int],
) -> LineRefused | NoSuchItem | None:
    """Count all lines against stock and limits; or count none of them, and return the refusal."""
    for position, line in enumerate(lines):
        reason = _refusal_of(line, available, used)
        if reason is None:
            _count(line, line.quantity, available, used)
            continue
        for taken in lines[:position]:
            _count(taken, -taken.quantity, available, used)
        return reason if isinstance(reason, NoSuchItem) else LineRefused(position, reason)
    return None


def _refusal_of(
    line: Purchase,
    available: Mapping[int, int],
    used: Mapping[tuple[int, int], int],
) -> SoldOut | LimitReached | NoSuchItem | None:
    if line.quantity < 1:
        raise ValueError(f"a purchase is of at least one unit, not {line.quantity}")
    if line.item not in available:
        return NoSuchItem(line.item)
    left = line.limit - used.get((line.scope, line.buyer), 0)
    for scope, subject, limit in line.quotas:
        left = min(left, limit - used.get((scope, subject), 0))
    if line.quantity > left:
        return LimitReached(max(left, 0))
    if line.quantity > available[line.item]:
        return SoldOut(available[line.item])
    return None


def _count(
    line: Purchase,
    units: int,
    available: MutableMapping[int, int],
    used: MutableMapping[tuple[int, int], int],
) -> None:
    available[line.item] -= units
    used[line.scope, line.buyer] = used.get((line.scope, line.buyer), 0) + units
    for scope, subject, _ in line.quotas:
        used[scope, subject] = used.get((scope, subject), 0) + units
