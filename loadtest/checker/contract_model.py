"""What the API promises a buyer who has a sale to themselves: a model that answers like the shop.

A `State` is what the shop may hold at a moment. `Contract.possible` says how it may answer a call
in that state, and what it holds then. `docs/correctness.md` describes the method (P21).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from loadtest.checker.order_model import AWAITING, STEPS, Call, Line, Order
from loadtest.history import Shown

T = TypeVar("T")


class Terms(NamedTuple):
    """What a sale sells; `price` in minor units of `currency`, `limit` in units per buyer."""

    stock: int
    limit: int
    price: int
    currency: str


class State(NamedTuple):
    """What the shop may hold.

    Attributes:
        orders: whatever became of them.
        added: restocks, each with its sale and its units.
        under_way: calls without an answer, which may yet happen.
    """

    orders: tuple[Order, ...] = ()
    added: tuple[tuple[str, int], ...] = ()
    under_way: tuple[Call, ...] = ()

    def having(self, order: Order, instead: Order | None = None) -> State:
        """The state with a new order, or with one in place of another."""
        if instead is None:
            return self._replace(orders=(*self.orders, order))
        return self._replace(orders=tuple(order if o == instead else o for o in self.orders))

    def waiting(self, sale: str) -> frozenset[bool]:
        """Whether units of a sale await their payment, and so may come back; both, if unknown."""
        if self.under_way:
            return frozenset({True, False})
        unpaid = [
            order
            for order in self.orders
            if order.status == AWAITING and any(ln.sale == sale and ln.kept for ln in order.lines)
        ]
        certain = any(not order.paying for order in unpaid)
        return frozenset({bool(unpaid), certain})


class Answer(NamedTuple):
    """An answer that the contract allows, and what the shop then holds.

    `order` is the one that it names; `may_come_back` has every value that is allowed.
    """

    status: int
    state: State
    code: str = ""
    about: str = ""
    order: Order | None = None
    shown: Shown | None = None
    available: int | None = None
    left: int | None = None
    may_come_back: Collection[bool] = (False,)

    def fits(self, call: Call) -> bool:
        """Whether this is what was answered."""
        if (self.status, self.code, self.about) != (call.status, call.code, call.about):
            return False
        if (self.shown, self.available, self.left) != (call.shown, call.available, call.left):
            return False
        if self.order is not None and call.order != self.order.id:
            named = {order.id for order in self.state.orders}
            if self.order.id is not None or call.order in named:
                return False
        return call.may_come_back in self.may_come_back

    def learn(self, call: Call) -> State:
        """The state, with the order named as the answer names it."""
        if self.order is None or self.order.id is not None:
            return self.state
        return self.state.having(self.order._replace(id=call.order), self.order)


def spoken(answer: Answer | Call) -> str:
    """What an answer says, in one line."""
    parts = [str(answer.status), answer.code, answer.about and f"about sale {answer.about}"]
    if answer.shown is not None:
        shown = answer.shown
        parts += [shown.status, f"amount {shown.amount} {shown.currency}"]
        if shown.refunded is not None:
            parts += [f"refunded {shown.refunded}", f"returned {shown.returned}"]
    for name in ("available", "left"):
        if (number := getattr(answer, name)) is not None:
            parts.append(f"{name} {number}")
    coming = answer.may_come_back
    coming = {coming} if isinstance(coming, bool) else set(coming)
    if True in coming:
        parts.append("may come back or not" if False in coming else "may come back")
    return ", ".join(filter(None, parts))


class Contract:
    """The contract of some sales.

    Args:
        terms: by sale.
        opened_twice: whether a purchase may be answered as repeated that was not: the shop has
            found its own order when the reply to a commit was lost, which only faults cause.
    """

    def __init__(self, terms: Mapping[str, Terms], *, opened_twice: bool = False) -> None:
        self.terms = terms
        self._opened_twice = opened_twice

    def possible(
        self, state: State, call: Call, waited: Mapping[str, Collection[bool]]
    ) -> Iterator[Answer]:
        """Every answer to a call; `waited` has what `State.waiting` was of late, by sale."""
        if call.op == "look":
            yield self._look(state, call)
        elif call.op == "restock":
            ((sale, _),) = call.wanted
            more = state._replace(added=(*state.added, *call.wanted))
            yield Answer(200, more, available=self._stock(more, sale))
        elif call.op == "order":
            yield from self._purchase(state, call, waited)
        else:
            yield from self._about_order(state, call)

    def _stock(self, state: State, sale: str) -> int:
        kept = (ln.kept for order in state.orders for ln in order.lines if ln.sale == sale)
        added = (units for restocked, units in state.added if restocked == sale)
        return self.terms[sale].stock + sum(added) - sum(kept)

    def _look(self, state: State, call: Call) -> Answer:
        ((sale, _),) = call.wanted
        terms, left = self.terms[sale], self._stock(state, sale)
        status = "open" if left else "sold_out"
        shown = Shown(terms.price, terms.currency, status, available=left)
        coming = (False,) if left else state.waiting(sale)
        return Answer(200, state, shown=shown, available=left, may_come_back=coming)

    def _purchase(
        self, state: State, call: Call, waited: Mapping[str, Collection[bool]]
    ) -> Iterator[Answer]:
        mine = [order for order in state.orders if order.buyer == call.buyer]
        for known in mine:
            if known.key == call.key:
                yield from self._repeated(state, known, call)
                return
        for sale, units in call.wanted:
            limit, stock = self.terms[sale].limit, self._stock(state, sale)
            lines = [line for order in mine for line in order.lines if line.sale == sale]
            about = sale if call.cart else ""
            left = limit - sum(line.kept for line in lines)
            too_few = Answer(409, state, "sold_out", about, available=stock)
            too_few = too_few._replace(may_come_back=waited[sale])
            if units > left:
                yield Answer(409, state, "limit_reached", about, left=max(left, 0))
                # The sold-out hint comes before the limit of who has never bought.
                if not (call.cart or stock or lines):
                    yield too_few
                return
            if units > stock:
                yield too_few
                return
        bought = tuple(Line(sale, self.terms[sale].price, n, n) for sale, n in call.wanted)
        amount = sum(line.price * line.quantity for line in bought)
        currency = self.terms[bought[0].sale].currency
        opened = Order(call.buyer, call.key, bought, amount, currency)
        for status in (201, 200) if self._opened_twice else (201,):
            yield Answer(status, state.having(opened), order=opened, shown=opened.shown)

    @staticmethod
    def _repeated(state: State, known: Order, call: Call) -> Iterator[Answer]:
        if tuple((line.sale, line.quantity) for line in known.lines) != call.wanted:
            yield Answer(422, state, "idempotency_key_reused")
            return
        for shown, order in _told_apart((order.shown, order) for order in known.later()):
            yield Answer(200, state.having(order, known), order=order, shown=shown)

    @staticmethod
    def _about_order(state: State, call: Call) -> Iterator[Answer]:
        found = [order for order in state.orders if order.id == call.order]
        if not found or found[0].buyer != call.buyer:
            yield Answer(404, state, "not_found")
            return
        (known,) = found
        refused: list[tuple[str, Order]] = []
        done: list[tuple[Shown, Order]] = []
        for order in known.later():
            for code, after in STEPS[call.op](order, call):
                if code:
                    refused.append((code, after))
                else:
                    done += [(now.shown, now) for now in after.later()]
        for code, order in _told_apart(refused):
            status = 409 if code.startswith(("order_", "payment_")) else 422
            yield Answer(status, state.having(order, known), code)
        for shown, order in _told_apart(done):
            yield Answer(200, state.having(order, known), order=order, shown=shown)


def _told_apart(orders: Iterable[tuple[T, Order]]) -> Iterator[tuple[T, Order]]:
    """Leave out an order that another one with the same answer may yet become."""
    by_answer: dict[T, set[Order]] = defaultdict(set)
    for answer, order in orders:
        by_answer[answer].add(order)
    for answer, same in by_answer.items():
        for order in same:
            if not any(order in other.later() for other in same - {order}):
                yield answer, order
