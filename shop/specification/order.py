"""Sales, and orders: an order awaits payment, then it is paid, then handed over (fulfilled) or
returned and refunded; or it is cancelled, or expires, from where a late payment may save it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

AWAITING, PAID, FULFILLED, EXPIRED = "awaiting_payment", "paid", "fulfilled", "expired"


class Refused(Exception):
    """The shop says no: a code, perhaps another that is as true, about what, and figures."""

    def __init__(
        self, code: str, *, about: Sale | None = None, or_else: str = "", **figures: int
    ) -> None:
        super().__init__(code)
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

    def __post_init__(self) -> None:
        self.available = self.total
        self.used: Counter[str] = Counter()  # of the limit, by buyer

    def closed(self, now: int) -> str:
        """Say why nothing is sold now; nothing if it is."""
        if not self.opens <= now < self.closes:
            return "not_started" if now < self.opens else "ended"
        return "paused" if self.paused else ""

    def status(self, now: int) -> str:
        """Return what everybody is shown."""
        return self.closed(now) or ("open" if self.available else "sold_out")

    def left_for(self, buyer: str) -> int:
        """Return the units that a buyer may still have."""
        return max(self.limit - self.used[buyer], 0)

    def restock(self, units: int) -> None:
        """Add units."""
        self.total += units
        self.available += units

    def take(self, buyer: str, units: int) -> None:
        """Take units for a buyer."""
        assert units <= self.available, "oversold"
        self.available -= units
        self.used[buyer] += units

    def put_back(self, buyer: str, units: int, *, resold: bool) -> None:
        """Put a buyer's units back on sale, or write them off."""
        self.used[buyer] -= units
        self.available += units if resold else 0
        self.total -= 0 if resold else units


@dataclass(eq=False)
class Payment:
    """An attempt to pay: pending, captured or failed, as the shop knows; `there`, the provider has
    nothing, or it is working, captured, declined, cancelled or failed."""

    amount: int
    begun: int
    state: str = "pending"
    there: str = "nothing"
    owed_back: int = 0
    given_back: int = 0


@dataclass(eq=False)
class Refund:
    """Money that is owed: pending, done or failed; `there`, nothing, working, done or declined."""

    payment: Payment
    amount: int
    reason: str
    begun: int
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
    currency: str
    pay_before: int
    status: str = AWAITING
    refunded: int = 0
    payments: list[Payment] = field(default_factory=list)
    refunds: list[Refund] = field(default_factory=list)
    parts: dict[Hashable, tuple[str, Line, int]] = field(default_factory=dict)
    timeline: list[Event] = field(default_factory=list)
    news: list[str] = field(default_factory=lambda: ["opened"])  # not followed up yet
    mails: dict[str, bool] = field(default_factory=dict)  # by kind: is it sent?

    def __post_init__(self) -> None:
        self.amount = sum(line.price * line.quantity for line in self.lines)
        for line in self.lines:
            line.sale.take(self.buyer, line.quantity)

    def live(self, line: Line) -> int:
        """Return the units of a line that the buyer has or may still get."""
        return line.kept if self.status in (AWAITING, PAID, FULFILLED) else 0

    def shown(self, now: int) -> str:
        """Return the status that its page shows: expired from the second of its deadline on."""
        return EXPIRED if self.status == AWAITING and now >= self.pay_before else self.status

    def note(self, *event: Any) -> None:
        """Write a line of its history."""
        self.timeline.append(Event(*event))
        self.news.append(event[0])

    def step(self, kind: str, status: str) -> None:
        """Take a step."""
        self.status = status
        self.note(kind)

    def end(self, kind: str, status: str, rule: str = "") -> None:
        """End it: all its units go back, by a rule of each sale."""
        for line in self.lines:
            resold = not rule or getattr(line.sale, rule)
            line.sale.put_back(self.buyer, self.live(line), resold=resold)
        self.step(kind, status)

    def expire(self, now: int) -> None:
        """End it if it was not paid in time: its units are on sale again, whatever the rule."""
        if self.status != self.shown(now):
            self.end("expired", EXPIRED)

    def cancel(self) -> None:
        """Cancel it. Cancelling again changes nothing."""
        if self.status == AWAITING:
            self.end("cancelled", "cancelled", "resells_cancelled")
        elif self.status != "cancelled":
            raise Refused(f"order_{self.status}")

    def hand_over(self) -> None:
        """Hand it over. Repeating it changes nothing."""
        if self.status == PAID:
            self.step("fulfilled", FULFILLED)
        elif self.status != FULFILLED:
            raise Refused(f"order_{self.status}")

    def give_back(self, what: str, part: Part, status: str) -> int | None:
        """Give units of a line back while it has that status; return what they are worth.

        None if this was done before, under the same key.
        """
        found = [line for line in self.lines if part.sale in (line.sale, None)]
        if len(found) != 1:
            raise Refused("invalid_quantity")
        [line] = found
        if part.key in self.parts:
            if self.parts[part.key] != (what, line, part.units):
                raise Refused("idempotency_key_reused")
            return None
        if self.status != status:
            raise Refused("invalid_quantity", or_else=f"order_{self.status}")
        if part.units > line.kept:
            raise Refused("invalid_quantity")
        self.parts[part.key] = (what, line, part.units)
        line.kept -= part.units
        resold, worth = getattr(line.sale, f"resells_{what}"), part.units * line.price
        line.sale.put_back(self.buyer, part.units, resold=resold)
        self.note(f"part_{what}", part.units, worth, line.sale)
        return worth

    def cancel_part(self, part: Part) -> None:
        """Cancel a part; with its last unit, the order is cancelled."""
        worth = self.give_back("cancelled", part, AWAITING)
        self.amount -= worth or 0
        if worth is not None and not any(line.kept for line in self.lines):
            self.cancel()

    def take_again(self) -> bool:
        """Take the units of an expired order again, all or none."""
        for line in self.lines:
            if min(line.sale.available, line.sale.left_for(self.buyer)) < line.kept:
                return False
        for line in self.lines:
            line.sale.take(self.buyer, line.kept)
        return True
