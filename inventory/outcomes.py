"""Requests to the stock and their outcomes. Plain values: no HTTP, no database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid5

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


class Quota(NamedTuple):
    """A limit that purchases count against, and for whom::

        Quota.named("address", sale, address, limit=1)

    Attributes:
        scope: what the limit applies to, such as a sale.
        subject: who uses it up, such as a buyer or an address.
        limit: units that the subject may hold in the scope, earlier purchases included.
    """

    scope: int
    subject: int
    limit: int

    @classmethod
    def named(cls, kind: str, of: int, subject: object, *, limit: int) -> Quota:
        """Return a quota whose scope and subject are numbers made from names.

        The numbers are negative, so none is the id of a sale or a buyer. Only they are stored, not
        the names.

        Args:
            kind: what is limited, such as "address" or "size".
            of: where, such as the id of the sale.
            subject: who uses it up; its text counts, so bring an address into one form first.
            limit: units.
        """
        return cls(_number(f"{kind}/{of}"), _number(f"{kind}/{subject}"), limit)


def _number(name: str) -> int:
    """Return a number of 63 bits for a name: two of a billion names share one by 1 in 18."""
    return -1 - (int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1)


@dataclass(frozen=True, slots=True)
class Purchase:
    """One buyer's request.

    Attributes:
        item: id of the item.
        scope: what the limit applies to; for a shop, the sale.
        buyer: id of the buyer.
        key: the buyer's idempotency key; the same key is the same purchase.
        quantity: units, at least 1.
        limit: units that the buyer may hold in the scope, earlier purchases included.
        hold: how long the units stay reserved without confirmation.
        quotas: further limits that the units count against, each of another scope or subject; all
            must allow them. They are given back with the units.
        trace: the request's span, for the hook of `inventory.hooks`; no part of the purchase.
    """

    item: int
    scope: int
    buyer: int
    key: UUID
    quantity: int
    limit: int
    hold: timedelta
    quotas: tuple[Quota, ...] = field(default=(), kw_only=True)
    trace: Any = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(slots=True)
class Granted:
    """The units are reserved, and committed.

    Attributes:
        purchase: the request.
        reservation: id of the reservation.
        replayed: the key had been granted before; this call took nothing.
        opened: the result of the shop's `on_granted`; None for a replay.
        final: set by `on_granted` if nothing is awaited, such as a payment: the reservation is
            written as confirmed, and never expires.
        line: position of the purchase in its cart, 0 for a single purchase. So each 0 in a list of
            grants begins what one buyer gets together.
    """

    purchase: Purchase
    reservation: int
    replayed: bool = False
    opened: Any = None
    final: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class SoldOut:
    """Fewer units are left than the purchase asks for.

    Attributes:
        available: units left at that moment.
    """

    available: int


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The buyer would hold more than the limit, or one of the purchase's quotas is used up.

    Attributes:
        left: units that the buyer may still take.
    """

    left: int


@dataclass(frozen=True, slots=True)
class KeyReused:
    """The key belongs to a different purchase of the same buyer."""


Outcome = Granted | SoldOut | LimitReached | KeyReused

OnGranted = Callable[[Sequence[Granted]], Sequence[Any]]
"""Runs inside the granting transaction; returns one value per grant, in order.

A shop opens its orders here, for all that the transaction grants: purchases of many buyers, and
carts, whose lines follow each other (`Granted.line`). An exception rolls the transaction back; in a
batch, only the purchase or cart that cannot be opened fails.
"""

MAX_LINES = 20
"""Lines per cart: other buyers wait for each line's row until the whole cart is committed."""


@dataclass(frozen=True, slots=True)
class Cart:
    """Purchases of one buyer, of which all are granted or none; a single purchase is a cart, too.

    Attributes:
        lines: the purchases, each with its own key (see `line_keys`).
        on_granted: opens what the shop needs for them.
    """

    lines: Sequence[Purchase]
    on_granted: OnGranted


def line_keys(key: UUID, lines: int) -> list[UUID]:
    """Derive the idempotency keys of a cart's lines from the cart's key.

    The first line uses the cart's key itself, so that no other purchase of the buyer can have it.

    Args:
        key: the cart's key.
        lines: number of lines.
    """
    return [key, *(uuid5(key, str(position)) for position in range(1, lines))]


@dataclass(frozen=True, slots=True)
class LineRefused:
    """Nothing of a cart was reserved because of this line.

    Attributes:
        position: of a refused line in the cart.
        outcome: the reason.
    """

    position: int
    outcome: SoldOut | LimitReached | KeyReused


class NotReserved(Exception):
    """Carries a refusal out of the caller's transaction, which must roll back.

    Attributes:
        refused: the line that was refused, and the reason.
    """

    def __init__(self, refused: LineRefused) -> None:
        super().__init__(f"line {refused.position + 1}: {refused.outcome}")
        self.refused = refused


CartAnswer = list[Granted] | LineRefused
"""The grants in the order of the lines, all new or all replayed; or the refused line."""


@dataclass(slots=True, eq=False)
class Ticket(Generic[RequestT, AnswerT]):
    """A request on its way through queue, decision and write, which fill in its answer.

    Attributes:
        request: the request.
        answer: the outcome, or an exception to raise in the caller; None while undecided. Final
            when the batch has ended: until then, a retry replaces it.
    """

    request: RequestT
    answer: AnswerT | BaseException | None = None


CartTicket = Ticket[Cart, CartAnswer]


def fail(tickets: Iterable[Ticket[Any, Any]], error: BaseException) -> None:
    """Answer each ticket with its own copy of an error, caused by the original.

    The tickets' threads raise concurrently, and raising an exception modifies it.
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


@dataclass(frozen=True, slots=True)
class Level:
    """An item's stock right after a change.

    Attributes:
        available: units left.
        version: number of the change; the higher of two is the newer.
    """

    available: int
    version: int


class NotOpened(Exception):
    """Base of the exceptions by which `on_granted` refuses one purchase: an answer, no failure."""


class PurchasesRefused(NotOpened):
    """Raised by `on_granted` to refuse single purchases, each with an exception of its own.

    The others of the batch are tried again without them. Of a cart, one refused line is enough.

    Attributes:
        errors: the exception for each refused purchase, by id of its reservation.
    """

    def __init__(self, errors: Mapping[int, NotOpened]) -> None:
        super().__init__(f"refused {len(errors)} purchases")
        self.errors = dict(errors)


class NoSuchItem(LookupError):
    """No item has this id."""


class Busy(Exception):
    """Too many requests are waiting, or the database is unreachable. Nothing was written."""


class OutcomeUnknown(Exception):
    """The commit may or may not have happened. A retry with the same key gets the result."""


class StaleToken(Exception):
    """A newer holder of the item's lock has written. This holder wrote nothing."""
