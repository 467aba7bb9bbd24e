"""The rule: who gets what, given what is there. Pure, and the only place that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from inventory.outcomes import (
    Granted,
    KeyReused,
    LimitReached,
    Purchase,
    PurchaseTicket,
    SoldOut,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A purchase that was granted before, as its reservation remembers it."""

    reservation: int
    item: int
    scope: int
    quantity: int

    def answer(self, purchase: Purchase) -> Granted | KeyReused:
        """The first answer again, if it is the same purchase."""
        same = (purchase.item, purchase.scope, purchase.quantity)
        if same != (self.item, self.scope, self.quantity):
            return KeyReused()
        return Granted(purchase, self.reservation, replayed=True)


@dataclass(slots=True)
class Decision:
    """What is to be written; all other tickets have their answer.

    Attributes:
        granted: tickets to write, in order of arrival, one for each key.
        repeats: tickets that repeat the key of a granted one, each with that one.
    """

    granted: list[PurchaseTicket] = field(default_factory=list)
    repeats: list[tuple[PurchaseTicket, PurchaseTicket]] = field(default_factory=list)

    @property
    def units(self) -> int:
        """Units to take from the stock."""
        return sum(ticket.request.quantity for ticket in self.granted)

    def answer_repeats(self) -> None:
        """Answer repeated keys like the first of each, which must be written and opened."""
        for repeat, first in self.repeats:
            original = first.answer
            assert isinstance(original, Granted)
            repeat.answer = Granted(
                original.purchase, original.reservation, replayed=True, opened=original.opened
            )


def decide(
    tickets: Sequence[PurchaseTicket],
    available: int,
    known: Mapping[tuple[int, UUID], Known],
    used: Mapping[tuple[int, int], int],
) -> Decision:
    """Serve a batch of purchases of one item in order of arrival.

    A purchase that does not fit is refused and the next one is tried, so the tail of the stock
    goes to the first in line whom it fits. Limits count what earlier purchases of the same
    batch were granted.

    Args:
        tickets: purchases of one item, first come first. Refusals and replays are filled in.
        available: units of the item that may be reserved.
        known: purchases that were granted before, by (buyer, key).
        used: units that a buyer holds already, by (scope, buyer); absent means none.

    Returns:
        The decision; its ``units`` never exceed ``available``.
    """
    decision = Decision()
    first_of_key: dict[tuple[int, UUID], PurchaseTicket] = {}
    taken_by: dict[tuple[int, int], int] = {}
    for ticket in tickets:
        purchase = ticket.request
        ticket.answer = None
        identity = (purchase.buyer, purchase.key)
        if identity in known:
            ticket.answer = known[identity].answer(purchase)
            continue
        if identity in first_of_key:
            first = first_of_key[identity].request
            if (first.scope, first.quantity) == (purchase.scope, purchase.quantity):
                decision.repeats.append((ticket, first_of_key[identity]))
            else:
                ticket.answer = KeyReused()
            continue
        allowance = (purchase.scope, purchase.buyer)
        held = used.get(allowance, 0) + taken_by.get(allowance, 0)
        if held + purchase.quantity > purchase.limit:
            ticket.answer = LimitReached(max(purchase.limit - held, 0))
        elif purchase.quantity > available:
            ticket.answer = SoldOut(available)
        else:
            available -= purchase.quantity
            taken_by[allowance] = taken_by.get(allowance, 0) + purchase.quantity
            first_of_key[identity] = ticket
            decision.granted.append(ticket)
    return decision
