"""What the simulated shop sells and what is bought of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.checker import snapshot as s

EPOCH = 1_700_000_000_000_000
CURRENCY = "CNY"


def clock(tick: int) -> int:
    """The database's time at a tick."""
    return EPOCH + 1_000_000 * tick


class Reply(NamedTuple):
    """An answer; `about` is the sale of the line that a cart was refused for."""

    status: int
    code: str = ""
    order: str | None = None
    shown: dict[str, object] | None = None
    about: str = ""


class Part(NamedTuple):
    """Units of a line under a buyer's key."""

    key: str
    sale: str
    quantity: int


@dataclass
class Sale:
    """A sale with its stock; `terms` are those that it has had, the last of them in force."""

    id: str
    item: str
    limit: int
    hold: int
    restock_cancelled: bool = True
    restock_returned: bool = True
    terms: list[tuple[int, s.Terms]] = field(default_factory=list)
    total: int = 0
    available: int = 0

    def terms_at(self, tick: int) -> s.Terms:
        """The terms that were in force."""
        return [terms for since, terms in self.terms if since <= tick or since == 0][-1]


@dataclass
class Line:
    """Units of a sale in an order, and the state of their reservation."""

    number: str
    sale: Sale
    key: str
    quantity: int
    price: int
    state: str = s.HELD
    returned: int = 0
    in_parts: int = 0
    cancelled_in_parts: int = 0

    @property
    def live(self) -> int:
        return self.quantity - self.returned


@dataclass
class Order:
    """An order, what was paid for it, and what is on its way back."""

    id: str
    buyer: str
    lines: list[Line]
    created: int
    pay_before: int
    amount: int
    status: str = "awaiting_payment"
    refunded: int = 0
    captured: int = 0
    owed: int = 0
    paying: bool = False
    parts: dict[str, tuple[str, Part]] = field(default_factory=dict)

    def shown(self) -> dict[str, object]:
        return {
            "amount": self.amount,
            "currency": CURRENCY,
            "status": self.status,
            "refunded": self.refunded,
        }


def why_closed(terms: s.Terms, tick: int) -> str:
    """Why a sale of these terms is closed at a tick; empty if it is open."""
    if clock(tick) < terms.starts_at:
        return "not_started"
    if clock(tick) >= terms.ends_at:
        return "ended"
    return "paused" if terms.paused else ""
