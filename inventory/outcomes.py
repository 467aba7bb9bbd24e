"""What is asked of the stock, and what may come of it. Plain values: no HTTP, no database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Purchase:
    """One buyer's wish.

    Attributes:
        item: id of the item.
        scope: what the limit applies to, for a shop its sale.
        buyer: id of the buyer.
        key: the buyer's idempotency key; the same key is the same purchase.
        quantity: units, at least 1.
        limit: units that the buyer may hold in the scope, together with earlier purchases.
        hold: how long the units stay reserved without being confirmed.
    """

    item: int
    scope: int
    buyer: int
    key: UUID
    quantity: int
    limit: int
    hold: timedelta

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise ValueError(f"a purchase is of at least one unit, not {self.quantity}")


@dataclass(slots=True)
class Granted:
    """The units are reserved, and committed.

    Attributes:
        purchase: what was asked.
        reservation: id of the reservation.
        replayed: the key had been granted before; nothing was taken this time.
        opened: what the shop's ``on_granted`` made of it; None for a replay.
    """

    purchase: Purchase
    reservation: int
    replayed: bool = False
    opened: Any = None


@dataclass(frozen=True, slots=True)
class SoldOut:
    """Fewer units are left than were asked for.

    Attributes:
        available: what was left at that moment, in units.
    """

    available: int


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The buyer would hold more than the limit.

    Attributes:
        left: what the buyer may still take, in units.
    """

    left: int


@dataclass(frozen=True, slots=True)
class KeyReused:
    """The key belongs to a different purchase of the same buyer."""


Outcome = Granted | SoldOut | LimitReached | KeyReused

OnGranted = Callable[[Sequence[Granted]], Sequence[Any]]
"""Runs inside the transaction that grants; returns one value for each, in order.

A shop opens its orders here. What it raises rolls the transaction back; in a batch, only the
purchase that it cannot open fails.
"""


@dataclass(frozen=True, slots=True)
class Level:
    """An item's stock just after a change.

    Attributes:
        available: units left.
        version: the change's number; of two levels, the one with the higher is the newer.
    """

    available: int
    version: int


class Declined(Exception):
    """Raised by ``on_granted``: purchases in these scopes are not to be made after all.

    The others of the batch are tried again without them.

    Attributes:
        scopes: which.
    """

    def __init__(self, scopes: Collection[int]) -> None:
        super().__init__(f"declined in scope {sorted(scopes)}")
        self.scopes = frozenset(scopes)


class Busy(Exception):
    """Too many are waiting, or the database cannot be reached. Nothing was written."""


class OutcomeUnknown(Exception):
    """The commit may or may not have happened. The same key later gets the truth."""


class StaleToken(Exception):
    """A newer holder of the item's lock has written. Nothing was written by this one."""
