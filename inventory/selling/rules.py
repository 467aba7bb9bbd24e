"""The selling rule: which requests a stock can serve. Pure, and the only place that decides it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
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
    """A purchase that was granted before, read from its reservation."""

    reservation: int
    item: int
    scope: int
    quantity: int

    def answer(self, purchase: Purchase) -> Granted | KeyReused:
        """Repeat the first answer if the purchase is the same."""
        same = (purchase.item, purchase.scope, purchase.quantity)
        if same != (self.item, self.scope, self.quantity):
            return KeyReused()
        return Granted(purchase, self.reservation, replayed=True)


@dataclass(slots=True)
class Decision:
    """The grants to write; all other tickets have their answer.

    Attributes:
        granted: tickets to write, in order of arrival, one per key.
        units: to take from the stock for them.
        repeats: tickets that repeat a granted key, each with the granted ticket.
        refuses: whether a purchase is refused for want of units or by its limit.
    """

    granted: list[PurchaseTicket] = field(default_factory=list)
    repeats: list[tuple[PurchaseTicket, PurchaseTicket]] = field(default_factory=list)
    units: int = 0
    refuses: bool = False

    def answer_repeats(self) -> None:
        """Answer repeated keys like their first ticket, which must be written and opened."""
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
    used: MutableMapping[tuple[int, int], int],
) -> Decision:
    """Decide a batch of purchases of one item in order of arrival.

    A purchase that does not fit is refused and the next one is tried, so the last units go to
    the first request that they suffice for. Limits include the grants of the same batch: `used` is
    raised by each, so that purchases of another item in the same scope, decided next with the same
    mapping, count them too.

    Args:
        tickets: purchases of one item, in order of arrival; refusals and replays are filled in.
        available: units of the item that may be reserved.
        known: earlier grants by (buyer, key).
        used: units that a subject already holds by (scope, subject), for a buyer's limit and for
            further quotas; absent means none. Changed.

    Returns:
        The decision; its `units` never exceed `available`.

    Raises:
        ValueError: a purchase is of no unit.
    """
    decision = Decision()
    first_of_key: dict[tuple[int, UUID], PurchaseTicket] = {}
    for ticket in tickets:
        purchase = ticket.request
        if purchase.quantity < 1:
            raise ValueError(f"a purchase is of at least one unit, not {purchase.quantity}")
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
        quotas = purchase.counted_in()
        left = min(limit - used.get((scope, subject), 0) for scope, subject, limit in quotas)
        if purchase.quantity > left:
            ticket.answer = LimitReached(max(left, 0))
            decision.refuses = True
        elif purchase.quantity > available:
            ticket.answer = SoldOut(available)
            decision.refuses = True
        else:
            available -= purchase.quantity
            for scope, subject, _ in quotas:
                used[scope, subject] = used.get((scope, subject), 0) + purchase.quantity
            first_of_key[identity] = ticket
            decision.granted.append(ticket)
            decision.units += purchase.quantity
    return decision
