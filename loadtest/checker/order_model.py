"""What becomes of a lone buyer's order: by what the buyer asks, and by itself.

By itself, a payment that is under way succeeds or is declined, and money that is owed arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from loadtest.history import OK, Shown

AWAITING, PAID, CANCELLED = "awaiting_payment", "paid", "cancelled"
RETURNING, REFUNDED = "refund_pending", "refunded"


class Call(NamedTuple):
    """A call and its answer.

    Attributes:
        key: of a purchase, a cart or a part; empty for none.
        wanted: units by sale: of a purchase or a part; empty for a whole order.
        cart: whether the purchase is a cart.
        about: the sale that a cart's refusal names.
        available, left, may_come_back: what a refusal, or a sale that was looked at, says.
    """

    name: str
    op: str
    buyer: str
    start: int
    end: int
    key: str = ""
    wanted: tuple[tuple[str, int], ...] = ()
    cart: bool = False
    order: str | None = None
    outcome: str = OK
    status: int = 200
    code: str = ""
    about: str = ""
    shown: Shown | None = None
    available: int | None = None
    left: int | None = None
    may_come_back: bool = False


class Line(NamedTuple):
    """Units of a sale in an order: as ordered, and how many are not given back."""

    sale: str
    price: int
    quantity: int
    kept: int


class Order(NamedTuple):
    """An order; amounts in minor units.

    Attributes:
        id: None until an answer has named it.
        amount: to be paid, or paid; less what was cancelled.
        paying: the amount of a payment that may be under way.
        captured: what was paid.
        owed: refunds that are on their way.
        refunded: the sum of those that have arrived.
        parts: of each part given back, its key, what was asked (cancel or refund) and how much.
    """

    buyer: str
    key: str
    lines: tuple[Line, ...]
    amount: int
    currency: str
    id: str | None = None
    status: str = AWAITING
    paying: int = 0
    captured: int = 0
    owed: tuple[int, ...] = ()
    refunded: int = 0
    parts: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...] = ()

    @property
    def shown(self) -> Shown:
        """The order as an answer shows it."""
        returned = sum(line.quantity - line.kept for line in self.lines)
        return Shown(self.amount, self.currency, self.status, self.refunded, returned)

    @property
    def kept(self) -> int:
        """The units that are not given back."""
        return sum(line.kept for line in self.lines)

    def owing(self, amount: int) -> Order:
        """The order with a refund on its way, if it is of anything."""
        return self._replace(owed=(*self.owed, amount)) if amount > 0 else self

    def ended(self) -> Order:
        """The order when it was cancelled or returned as a whole."""
        order = self._replace(lines=tuple(line._replace(kept=0) for line in self.lines))
        if self.status == AWAITING:
            return order._replace(status=CANCELLED)
        order = order.owing(self.captured - self.refunded - sum(self.owed))
        return order._replace(status=RETURNING if order.owed else REFUNDED)

    def less(self, call: Call) -> Order:
        """The order when a part was cancelled or returned: what is left of it, if anything."""
        ((sale, units),) = call.wanted
        worth = sum(line.price * units for line in self.lines if line.sale == sale)
        order = self._replace(
            lines=tuple(
                line._replace(kept=line.kept - units) if line.sale == sale else line
                for line in self.lines
            ),
            parts=(*self.parts, (call.key, call.op, call.wanted)),
            amount=self.amount - (worth if self.status == AWAITING else 0),
        )
        if not order.kept:
            return order.ended()
        return order.owing(worth) if self.status == PAID else order

    def later(self) -> set[Order]:
        """All that the order may have become by itself, as it is included."""
        found, new = {self}, [self]
        while new:
            following = set(_steps(new.pop())) - found
            found |= following
            new += following
        return found


def _steps(order: Order) -> Iterator[Order]:
    """What may happen to an order next, by itself."""
    if order.paying:
        yield order._replace(paying=0)  # declined, or never begun
        captured = order._replace(paying=0, captured=order.paying)
        if order.status == AWAITING:
            # A part that was cancelled meanwhile is given back.
            yield captured._replace(status=PAID).owing(order.paying - order.amount)
        else:
            yield captured.owing(order.paying)
    for place, amount in enumerate(order.owed):
        rest = order.owed[:place] + order.owed[place + 1 :]
        over = order.status == RETURNING and not rest
        yield order._replace(
            owed=rest,
            refunded=order.refunded + amount,
            status=REFUNDED if over else order.status,
        )


Outcomes = Iterator[tuple[str, Order]]
"""The code of a refusal, empty for none, and the order after it."""


def _read(order: Order, _: Call) -> Outcomes:
    yield "", order


def _pay(order: Order, _: Call) -> Outcomes:
    if order.status == AWAITING:
        yield "", order._replace(paying=order.paying or order.amount)
        yield "payment_declined", order._replace(paying=0)
    else:
        yield "" if order.status == PAID else f"order_{order.status}", order


def _end(order: Order, call: Call, status: str, ended: Collection[str]) -> Outcomes:
    """Give an order of that status back, as a whole or in part; it may have ended in this way."""
    if call.wanted:
        yield from _give_back(order, call, status)
    elif order.status == status:
        yield "", order.ended()
    else:
        yield "" if order.status in ended else f"order_{order.status}", order


def _give_back(order: Order, call: Call, status: str) -> Outcomes:
    """Cancel or return a part of an order, which must have that status."""
    ((sale, units),) = call.wanted
    kept = [line.kept for line in order.lines if line.sale == sale]
    part = (call.key, call.op, call.wanted)
    if not kept:
        yield "invalid_quantity", order
    elif call.key in {key for key, _, _ in order.parts}:
        yield "" if part in order.parts else "idempotency_key_reused", order
    elif order.status != status:
        # No unit of it can be given back in this way; either is true.
        yield "invalid_quantity", order
        yield f"order_{order.status}", order
    elif units > kept[0]:
        yield "invalid_quantity", order
    else:
        yield "", order.less(call)


STEPS: Mapping[str, Callable[[Order, Call], Outcomes]] = {
    "read": _read,
    "payment": _pay,
    "cancel": partial(_end, status=AWAITING, ended=(CANCELLED,)),
    "refund": partial(_end, status=PAID, ended=(RETURNING, REFUNDED)),
}
