"""Sales, and orders: an order awaits payment, then it is paid, then handed over (fulfilled) or
returned and refunded; or it is cancelled, or expires, from where a late payment may save it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

AWAITING = "awaiting_payment"


class Refused(Exception):
    """The shop says no: a code, about what, and figures; or else, another no that is as true."""

    def __init__(
        self, code: str, about: Sale | None = None, or_else: Refused | None = None, **figures: int
    ) -> None:
        self.code, self.about, self.or_else, self.figures = code, about, or_else, figures


@dataclass(eq=False)
class Sale:
    """Units of a product at a price (minor units), in a window (seconds of the story's clock), with
    a limit per buyer. `total` counts what was stocked and not written off."""

    name: str
    total: int
    price: int
    currency: str
    limit: int
    opens: int
    closes: int
    hold: int
    list_price: int = 0
    resells_cancelled: bool = True
    resells_returned: bool = True
    paused: bool = False

    def closed(self, now: int) -> str:
        """Say why nothing is sold now; nothing if it is."""
        if not self.opens <= now < self.closes:
            return "not_started" if now < self.opens else "ended"
        return "paused" if self.paused else ""


@dataclass(eq=False)
class Money:
    """A payment, or a refund of one for a reason: pending, done or failed, as the shop knows;
    `there`, the provider has nothing, or it is working, done, declined, cancelled or failed."""

    amount: int
    begun: int
    payment: Money | None = None
    reason: str = ""
    state: str = "pending"
    there: str = "nothing"
    acknowledged: bool = False


@dataclass(eq=False)
class Line:
    """Units of a sale in an order; `kept` are those that the buyer did not give back."""

    sale: Sale
    quantity: int
    price: int
    kept: int


class Event(NamedTuple):
    """A line of the order's history."""

    kind: str
    quantity: int | None = None
    amount: int | None = None
    sale: Sale | None = None


class Part(NamedTuple):
    """Units that a buyer gives back, under the buyer's key; no sale means the only one."""

    units: int
    key: Hashable
    sale: Sale | None = None


@dataclass(eq=False)
class Order:
    """An order. `amount` is to be paid, or paid; less what was cancelled."""

    buyer: str
    key: Hashable
    lines: list[Line]
    pay_before: int
    status: str = AWAITING
    payments: list[Money] = field(default_factory=list)
    refunds: list[Money] = field(default_factory=list)
    parts: dict[Hashable, tuple[str, Line, int]] = field(default_factory=dict)
    timeline: list[Event] = field(default_factory=list)
    news: list[str] = field(default_factory=lambda: ["opened"])  # not followed up yet
    mails: dict[str, bool] = field(default_factory=dict)  # by kind: is it sent?

    def __post_init__(self) -> None:
        self.currency = self.lines[0].sale.currency
        self.amount = sum(line.price * line.quantity for line in self.lines)

    @property
    def refunded(self) -> int:
        """Return how much has arrived at the buyer's again."""
        return sum(refund.amount for refund in self.refunds if refund.state == "done")

    def live(self, line: Line) -> int:
        """Return the units of a line that the buyer has or may still get."""
        return line.kept if self.status in (AWAITING, "paid", "fulfilled") else 0

    def owed_back(self, payment: Money) -> int:
        """Return how much of a payment went back, or is to."""
        return sum(refund.amount for refund in self.refunds if refund.payment is payment)

    def shown(self, now: int) -> str:
        """Return the status that its page shows: expired from the second of its deadline on."""
        return "expired" if self.status == AWAITING and now >= self.pay_before else self.status

    def note(self, *event: Any) -> None:
        """Write a line of its history."""
        self.timeline.append(Event(*event))
        self.news.append(event[0])

    def step(self, kind: str, status: str) -> None:
        """Take a step."""
        self.status = status
        self.note(kind)

    def resell(self, line: Line, units: int, how: str) -> None:
        """Put cancelled or returned units on sale again, unless the sale writes such units off."""
        if not getattr(line.sale, f"resells_{how}"):
            line.sale.total -= units

    def end(self, how: str, status: str) -> None:
        """End it: it holds no units any more."""
        for line in self.lines:
            self.resell(line, line.kept, how)
        self.step(how, status)

    def expire(self, now: int) -> None:
        """End it if it was not paid in time: its units are on sale again, whatever the rule."""
        if self.status != self.shown(now):
            self.step("expired", "expired")

    def cancel(self, part: Part | None = None) -> None:
        """Cancel it, or a part, with the last of which it ends. Repeating it changes nothing."""
        self.amount -= self.give_back("cancelled", part, AWAITING) if part else 0
        if self.status == AWAITING and not (part and any(line.kept for line in self.lines)):
            self.end("cancelled", "cancelled")
        elif not part and self.status != "cancelled":
            raise Refused(f"order_{self.status}")

    def hand_over(self) -> None:
        """Hand it over. Repeating it changes nothing."""
        if self.status == "paid":
            self.step("fulfilled", "fulfilled")
        elif self.status != "fulfilled":
            raise Refused(f"order_{self.status}")

    def give_back(self, how: str, part: Part, status: str) -> int:
        """Give units back while it has that status, once per key; return what they are worth."""
        found = [line for line in self.lines if part.sale in (line.sale, None)]
        if len(found) != 1:
            raise Refused("invalid_quantity")
        [line] = found
        if part.key in self.parts:
            if self.parts[part.key] != (how, line, part.units):
                raise Refused("idempotency_key_reused")
            return 0
        ended = None if self.status == status else Refused(f"order_{self.status}")
        if ended or part.units > line.kept:
            raise Refused("invalid_quantity", or_else=ended)
        self.parts[part.key] = (how, line, part.units)
        line.kept -= part.units
        self.resell(line, part.units, how)
        self.note(f"part_{how}", part.units, part.units * line.price, line.sale)
        return part.units * line.price
