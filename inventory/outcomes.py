"""What is asked of the stock, and what may come of it. Plain values: no HTTP, no database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Purchase:
    """One buyer's request.

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


class Ticket(Generic[Request, Answer]):
    """A request on its way through queue, decision and write, which fill in its answer.

    Attributes:
        request: what is asked for.
        answer: an exception is raised to the caller. None while nothing is decided. It counts
            once the batch is over: until then, a new attempt replaces it.
    """

    __slots__ = ("answer", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.answer: Answer | BaseException | None = None

    def result(self) -> Answer | None:
        """Return the answer, or raise it."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


PurchaseTicket = Ticket[Purchase, Outcome]


def fail(tickets: Iterable[Ticket[Any, Any]], error: BaseException) -> None:
    """Answer tickets with an error: each with a copy of its own, caused by the original.

    Their threads raise the answers at the same time, and raising an exception writes to it.
    """
    for ticket in tickets:
        ticket.answer = _copy(error)


def _copy(error: BaseException) -> BaseException:
    kind = type(error)
    try:
        own = kind.__new__(kind, *error.args)  # not __init__, which may want other arguments
        own.__dict__.update(error.__dict__)
    except Exception:  # noqa: BLE001  # whatever it is, every ticket needs an answer
        own = OutcomeUnknown(repr(error))
    own.__cause__ = error
    return own


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
    """Too many requests wait, or the database cannot be reached. Nothing was written."""


class OutcomeUnknown(Exception):
    """The commit may or may not have happened. The same key later gets the truth."""


class StaleToken(Exception):
    """A newer holder of the item's lock has written. Nothing was written by this one."""
