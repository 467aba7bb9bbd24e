"""What the shop promises, as a model that runs, without database or HTTP.

An order awaits payment, then it is paid, then handed over (fulfilled) or returned and refunded; or
it is cancelled, or expires, from where a late payment may save it, or staff may hold it again.
Staff may take back what was handed over, too, and give money back as goodwill.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

AWAITING = "awaiting_payment"

FREE_FROM = 3
"""Units of an order from which on there is no fee."""


class Refused(Exception):
    """The shop says no: a code, about what, and figures; or else, another no that is as true."""

    def __init__(
        self, code: str, about: Sale | None = None, or_else: Refused | None = None, **figures: int
    ) -> None:
        self.code, self.about, self.or_else, self.figures = code, about, or_else, figures


@dataclass(eq=False)
class Sale:
    """Units of a product at a price (minor units), in a window (seconds of the test's clock), with
    a limit per buyer. `total` counts what was stocked and not written off."""

    name: str
    total: int
    price: int
    currency: str
    limit: int
    opens: int
    closes: int
    hold: int
    action_hold: int = 40
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
    `at_provider`, nothing is known of it, or the buyer was asked, or has authorised it, or it is
    working, done, declined, cancelled or failed. `asked` and `waits`: whether the shop knows that
    the buyer has something to do for it, and has not done it."""

    amount: int
    begun: int
    payment: Money | None = None
    reason: str = ""
    state: str = "pending"
    reversed: bool = False
    at_provider: str = "nothing"
    asked: bool = False
    waits: bool = False


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
    """An order. `amount` is to be paid, or paid; less what was cancelled. It includes the fee that
    the order was opened with, of which `fee` is what the shop keeps. `conceded` went back while the
    buyer kept the units. `acts` are those of staff, by their keys."""

    buyer: str
    key: Hashable
    lines: list[Line]
    created: int
    pay_before: int
    opened_fee: int = 0
    status: str = AWAITING
    conceded: int = 0
    acts: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    payments: list[Money] = field(default_factory=list)
    refunds: list[Money] = field(default_factory=list)
    parts: dict[Hashable, tuple[str, Line, int]] = field(default_factory=dict)
    timeline: list[Event] = field(default_factory=list)
    pending_events: list[str] = field(default_factory=lambda: ["opened"])  # not followed up yet
    mails: dict[str, bool] = field(default_factory=dict)  # by kind: is it sent?

    def __post_init__(self) -> None:
        self.currency = self.lines[0].sale.currency
        self.amount = sum(line.price * line.quantity for line in self.lines) + self.opened_fee
        self.fee = self.opened_fee

    @property
    def refunded(self) -> int:
        """Return how much has arrived at the buyer's again."""
        return sum(refund.amount for refund in self.refunds if refund.state == "done")

    def live(self, line: Line) -> int:
        """Return the units of a line that the buyer has or may still get."""
        return line.kept if self.status in (AWAITING, "paid", "fulfilled") else 0

    def to_give_back(self, payment: Money) -> int:
        """Return how much of a payment went back, or is to."""
        return sum(refund.amount for refund in self.refunds if refund.payment is payment)

    def shown(self, now: int) -> str:
        """Return the status that its page shows: expired from the second of its deadline on."""
        return "expired" if self.status == AWAITING and now >= self.pay_before else self.status

    def payment(self) -> str:
        """Return how far its payment has come, as it is shown next to its status."""
        if self.status != AWAITING or not self.payments:
            return "none"
        last = self.payments[-1]
        pending = "action" if last.waits else "processing"
        return "failed" if last.state == "failed" else pending

    def note(self, *event: Any) -> None:
        """Write a line of its history."""
        self.timeline.append(Event(*event))
        self.pending_events.append(event[0])

    def step(self, kind: str, status: str) -> None:
        """Take a step."""
        self.status = status
        self.note(kind)

    def resell(self, line: Line, units: int, how: str) -> None:
        """Put cancelled or returned units on sale again, unless the sale writes such units off."""
        if not getattr(line.sale, f"resells_{how}"):
            line.sale.total -= units

    def end(self, how: str, status: str, event: str = "") -> None:
        """End it: it holds no units any more."""
        for line in self.lines:
            self.resell(line, line.kept, how)
        self.step(event or how, status)

    def expire(self, now: int) -> None:
        """End it if it was not paid in time: its units are on sale again, whatever the rule."""
        if self.status != self.shown(now):
            self.step("expired", "expired")

    def cancel(self, part: Part | None = None) -> None:
        """Cancel it, or a part, with the last of which it ends. Repeating it changes nothing."""
        self.amount -= self.give_back("cancelled", part, AWAITING) if part else 0
        if self.status == AWAITING and not (part and any(line.kept for line in self.lines)):
            self.end("cancelled", "cancelled")
        elif self.status == AWAITING and not self.amount:
            self.step("paid", "paid")  # what is left of it is free
        elif not part and self.status != "cancelled":
            raise Refused(f"order_{self.status}")

    def cancel_by_staff(self) -> None:
        """Cancel it for its buyer, who gets a mail."""
        before = self.status
        self.cancel()
        if before != self.status:
            self.pending_events[-1] = "cancelled_by_staff"

    def was_done(self, key: int, act: str, amount: int | None = None) -> bool:
        """Return whether an act of staff was done under its key before."""
        if key in self.acts and self.acts[key] != (act, amount):
            raise Refused("idempotency_key_reused")
        return key in self.acts

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


MAILS = {"opened": "confirmation", "paid": "paid", "paid_late": "paid", "expired": "expired"}
MAILS |= {"refunded": "refunded", "money_owed": "money_owed", "cancelled_by_staff": "cancelled"}
"""The mail that follows an event: one of each kind per order, however often."""


class Shop:
    """One shop; its sales in order of their numbers, its orders the oldest first. The payment
    provider `answers` at once, or it `asks` the buyer, `works` for a while, `declines`, is `silent`
    and does nothing, or `mute`: it does it, and its answer is lost. Without `payments`, orders just
    are confirmed. An order of less than three units costs the `fee` besides."""

    def __init__(self, sales: list[Sale], *, payments: bool = True, fee: int = 0) -> None:
        self.sales, self.now, self.mode, self.payments = sales, 0, "answers", payments
        self.fee = fee
        self.orders: list[Order] = []

    def of(self, buyer: str) -> list[Order]:
        """Return a buyer's orders, which nobody else sees."""
        return [order for order in self.orders if order.buyer == buyer]

    def held(self, sale: Sale, orders: list[Order]) -> int:
        """Return the units of a sale in some orders."""
        return sum(o.live(line) for o in orders for line in o.lines if line.sale is sale)

    def available(self, sale: Sale) -> int:
        """Return the units for sale: what is there, less what buyers have."""
        return sale.total - self.held(sale, self.orders)

    def left_for(self, buyer: str, sale: Sale) -> int:
        """Return the units that a buyer may still have."""
        return max(sale.limit - self.held(sale, self.of(buyer)), 0)

    def status(self, sale: Sale) -> str:
        """Return what everybody is shown of a sale."""
        return sale.closed(self.now) or ("open" if self.available(sale) else "sold_out")

    def may_come_back(self, sale: Sale) -> bool:
        """Return whether units are reserved but not paid, and so may be for sale again."""
        return self.held(sale, [order for order in self.orders if order.status == AWAITING]) > 0

    def buy(
        self, buyer: str, key: Hashable, wanted: Mapping[Sale, int], *, cart: bool = False
    ) -> tuple[Order, bool]:
        """Buy all or nothing; the same key brings the same order (True), even if a sale is over."""
        lines = {sale: wanted[sale] for sale in self.sales if sale in wanted}
        if odd := [sale for sale, units in lines.items() if not 1 <= units <= 1000]:
            raise Refused("invalid_quantity", odd[0])
        if len({sale.currency for sale in lines}) != 1:
            raise Refused("invalid_cart")
        for order in self.of(buyer):
            if order.key == key:
                if {line.sale: line.quantity for line in order.lines} != lines:
                    raise Refused("idempotency_key_reused")
                return order, True
        for sale in lines:
            if code := sale.closed(self.now):
                raise Refused(code, sale)
        for sale, units in lines.items():
            self._check(buyer, sale, units, cart=cart)
        bought = [Line(sale, units, sale.price, units) for sale, units in lines.items()]
        deadline = self.now + min(sale.hold for sale in lines)
        fee = self.fee if sum(lines.values()) < FREE_FROM else 0
        self.orders.append(Order(buyer, key, bought, self.now, deadline, fee))
        if not self.orders[-1].amount:
            self.orders[-1].step("paid", "paid")
        return self.orders[-1], False

    def _check(self, buyer: str, sale: Sale, units: int, *, cart: bool) -> None:
        left, free = self.left_for(buyer, sale), self.available(sale)
        sold_out = Refused("sold_out", sale, available=free, may_come_back=self.may_come_back(sale))
        if units > left:
            # A buyer who has never bought may get "sold out" before the limit is looked at.
            new = not cart and not free and not self.of(buyer)
            raise Refused("limit_reached", sale, sold_out if new else None, left=left)
        if units > free:
            raise sold_out

    def pay(self, order: Order) -> None:
        """Pay an order. Paying again changes nothing."""
        if order.status in ("paid", "fulfilled"):
            return
        pending = [payment for payment in order.payments if payment.state == "pending"]
        if not pending:
            self._check_payable(order)
            if not (order.amount and self.payments):
                order.step("paid", "paid")
                return
            order.payments += (pending := [Money(order.amount, self.now)])
        self.ask(order, pending[0])
        if pending[0].state == "failed" or order.status not in (AWAITING, "paid", "fulfilled"):
            self._check_payable(order)
            raise Refused("payment_declined")

    def _check_payable(self, order: Order) -> None:
        if (status := order.shown(self.now)) != AWAITING:
            raise Refused(f"order_{status}")

    def ask(self, order: Order, money: Money) -> None:
        """Have the provider move money, or say what became of it; an ended order is not charged."""
        ended = not money.payment and order.shown(self.now) != AWAITING
        if ended:
            money.waits = False
        if self.mode == "silent":
            raise Refused("outcome_unknown")
        if ended and money.at_provider in ("nothing", "asked", "authorised"):
            money.at_provider = "cancelled"
        elif not money.payment and (money.at_provider, self.mode) == ("nothing", "asks"):
            money.at_provider = "asked"
        elif money.at_provider in ("nothing", "authorised") or money.payment:
            if money.at_provider in ("nothing", "authorised"):
                money.at_provider = {"works": "working", "declines": "declined"}.get(
                    self.mode, "done"
                )
            if self.mode == "mute":
                raise Refused("outcome_unknown")
        if money.at_provider == "asked":
            self.wait_for_buyer(order, money)
        elif money.at_provider != "working":
            self.record(order, money, money.at_provider)
        else:
            money.waits = False

    def wait_for_buyer(self, order: Order, money: Money) -> None:
        """Hold the units for the buyer's part of a payment: once, and never beyond both times."""
        if not money.asked:
            sales = [line.sale for line in order.lines]
            latest = min(self.now, order.created + min(sale.hold for sale in sales))
            latest += min(sale.action_hold for sale in sales)
            order.pay_before = max(order.pay_before, latest)
        money.asked = money.waits = True

    def hear_of_authorisation(self, order: Order, money: Money, *, is_known: bool) -> None:
        """Capture at once what the buyer has authorised; also when it is heard again."""
        if money.state == "pending":
            money.waits = money.waits and is_known
            with suppress(Refused):
                self.ask(order, money)

    def record(self, order: Order, money: Money, outcome: str) -> None:
        """Record what the provider says. Money that was taken is not overlooked; it counts once."""
        before, done = money.state, outcome == "done"
        if before == "done" and not done and not money.payment and not money.reversed:
            money.reversed = True
            order.note("payment_reversed", None, money.amount)
        if before == "done" or (before == "failed" and (money.payment or not done)):
            return
        money.state = "done" if done else "failed"
        if money.payment:
            order.note("money_back" if done else "refund_failed", None, money.amount)
            self._finish(order)
        elif not done:
            order.note("payment_failed", None, money.amount)
        elif order.status == AWAITING or (
            order.status == "expired" and not money.asked and self._can_have(order)
        ):
            order.step("paid" if order.status == AWAITING else "paid_late", "paid")
            self._give_back(order, money, money.amount - order.amount, "too_much")
        else:
            self._give_back(order, money, money.amount, "too_late")

    def _can_have(self, order: Order) -> bool:
        """Return whether there are units again for all of an expired order."""
        return all(
            line.kept <= min(self.available(line.sale), self.left_for(order.buyer, line.sale))
            for line in order.lines
        )

    def _give_back(self, order: Order, payment: Money, amount: int, reason: str) -> None:
        if amount > 0:
            order.refunds.append(Money(amount, self.now, payment, reason))
            if reason not in ("returned", "goodwill"):
                order.note("money_owed", None, amount)

    def refund(self, order: Order, part: Part | None = None, *, by_staff: bool = False) -> None:
        """Return a paid order, or a part of it; staff may take back what was handed over, too.
        Repeating it changes nothing. The fee goes back with the whole, unless it was handed over.
        """
        handed_over = by_staff and order.status == "fulfilled"
        status, keep = "fulfilled" if handed_over else "paid", 0
        worth = order.give_back("returned", part, status) if part else 0
        if order.status == status and not (part and any(line.kept for line in order.lines)):
            order.end("returned", "refund_pending", "taken_back" if handed_over else "")
            order.fee = order.fee if handed_over else 0
            worth, keep = order.amount, max(order.fee - order.conceded, 0)
        elif not part and order.status not in ("refund_pending", "refunded"):
            raise Refused(f"order_{order.status}")
        for payment in [payment for payment in order.payments if payment.state == "done"]:
            left = payment.amount - order.to_give_back(payment) - keep
            self._give_back(order, payment, min(worth, left), "returned")
        self._finish(order)
        self._pay_out(order)

    def _pay_out(self, order: Order) -> None:
        for pending in [refund for refund in order.refunds if refund.state == "pending"]:
            self.ask(order, pending)

    def concede(self, order: Order, amount: int, key: int) -> None:
        """Give money back as goodwill, once per key; the buyer keeps the units."""
        if not order.was_done(key, "goodwill", amount):
            if order.status not in ("paid", "fulfilled"):
                raise Refused(f"order_{order.status}")
            taken = [payment for payment in order.payments if payment.state == "done"]
            enough = [each for each in taken if each.amount >= order.to_give_back(each) + amount]
            if not enough:
                raise Refused("too_much_back")
            order.acts[key] = ("goodwill", amount)
            order.conceded += amount
            order.note("goodwill", None, amount)
            self._give_back(order, enough[0], amount, "goodwill")
        self._pay_out(order)

    def hold(self, order: Order, seconds: int, key: int) -> None:
        """Hold an unpaid order for longer, or an expired one again, once per key."""
        if order.was_done(key, "extended"):
            return
        if order.status == "expired":
            paid = any(payment.state == "done" for payment in order.payments)
            if paid or not self._can_have(order):
                raise Refused("not_renewable")
            order.step("renewed", AWAITING)
            order.pay_before = self.now + seconds
        elif order.status != AWAITING:
            raise Refused(f"order_{order.status}")
        order.pay_before = max(order.pay_before, self.now + seconds)
        order.acts[key] = ("extended", None)
        order.note("extended")

    def _finish(self, order: Order) -> None:
        if order.status == "refund_pending" and all(r.state == "done" for r in order.refunds):
            order.step("refunded", "refunded")

    def retry(self, refund: Money) -> None:
        """Make a refund pending again that the provider refused, as an operator may."""
        refund.state, refund.at_provider = "pending", "nothing"

    def settle(self) -> None:
        """Ask the provider about all that has no answer yet: payments, then refunds."""
        for kind in ("payments", "refunds"):
            found = [(o, m) for o in self.orders for m in getattr(o, kind) if m.state == "pending"]
            for order, money in found:
                with suppress(Refused):
                    self.ask(order, money)

    def follow_up(self) -> None:
        """Note the mails that follow what happened, or confirm orders that need no payment."""
        for order in self.orders:
            free = not (order.opened_fee or any(line.price for line in order.lines))
            for kind in order.pending_events:  # which grows
                if kind == "paid" and free and self.payments:
                    continue  # its confirmation says so
                if kind in MAILS and (self.payments or kind != "opened"):
                    order.mails.setdefault(MAILS[kind], False)
                elif kind == "opened" and order.shown(self.now) == AWAITING:
                    order.step("paid", "paid")
            order.pending_events.clear()
