"""The rule: who gets what, given what is there. Pure, and the only place that decides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from inventory.outcomes import Granted, KeyReused, LimitReached, Outcome, Purchase, SoldOut


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
    """What is to be written and what is to be answered.

    Attributes:
        granted: purchases to write, in order of arrival, one for each key.
        refused: answers for the others, by position in the batch.
        repeats: position in the batch of a repeated key, to the position of its first.
        positions: position in the batch of each granted purchase.
    """

    granted: list[Purchase]
    positions: list[int]
    refused: dict[int, Outcome]
    repeats: dict[int, int]

    @property
    def units(self) -> int:
        """Units to take from the stock."""
        return sum(purchase.quantity for purchase in self.granted)


def decide(
    batch: Sequence[Purchase],
    available: int,
    known: Mapping[tuple[int, UUID], Known],
    used: Mapping[tuple[int, int], int],
) -> Decision:
    """Serve a batch of purchases of one item in order of arrival.

    A purchase that does not fit is refused and the next one is tried, so the tail of the stock
    goes to the first in line whom it fits. Limits count what earlier purchases of the same
    batch were granted.

    Args:
        batch: purchases of one item, first come first.
        available: units of the item that may be reserved.
        known: purchases that were granted before, by (buyer, key).
        used: units that a buyer holds already, by (scope, buyer); absent means none.

    Returns:
        The decision; its ``units`` never exceed ``available``.
    """
    decision = Decision([], [], {}, {})
    first_of_key: dict[tuple[int, UUID], int] = {}
    taken_by: dict[tuple[int, int], int] = {}
    for position, purchase in enumerate(batch):
        identity = (purchase.buyer, purchase.key)
        if identity in known:
            decision.refused[position] = known[identity].answer(purchase)
            continue
        if identity in first_of_key:
            first = batch[first_of_key[identity]]
            same = (first.scope, first.quantity) == (purchase.scope, purchase.quantity)
            if same:
                decision.repeats[position] = first_of_key[identity]
            else:
                decision.refused[position] = KeyReused()
            continue
        allowance = (purchase.scope, purchase.buyer)
        held = used.get(allowance, 0) + taken_by.get(allowance, 0)
        if held + purchase.quantity > purchase.limit:
            decision.refused[position] = LimitReached(max(purchase.limit - held, 0))
        elif purchase.quantity > available:
            decision.refused[position] = SoldOut(available)
        else:
            available -= purchase.quantity
            taken_by[allowance] = taken_by.get(allowance, 0) + purchase.quantity
            first_of_key[identity] = position
            decision.granted.append(purchase)
            decision.positions.append(position)
    return decision


def answers(decision: Decision, granted: Iterable[Granted], size: int) -> list[Outcome]:
    """One outcome for each purchase of a batch, in the batch's order.

    Args:
        decision: what was decided.
        granted: what was written, in the decision's order.
        size: how many purchases the batch had.
    """
    by_position: dict[int, Outcome] = dict(decision.refused)
    by_position.update(zip(decision.positions, granted, strict=True))
    for repeat, first in decision.repeats.items():
        original = by_position[first]
        assert isinstance(original, Granted)
        by_position[repeat] = Granted(
            original.purchase, original.reservation, replayed=True, opened=original.opened
        )
    return [by_position[position] for position in range(size)]
