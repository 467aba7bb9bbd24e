"""What our shop promises, by `shop/specification`; the shop itself is not needed for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

from loadtest.checker.snapshot import CONFIRMED, HELD, RELEASED, Mail, Row, Status, Step
from loadtest.history import Shown
from loadtest.shop import Offer, Possible, Question, Said
from shop.specification.order import AWAITING, Money, Order, Part, Refused, Sale
from shop.specification.shop import Shop

LIFECYCLE: tuple[Row, ...] = (
    Status("awaiting_payment", 0, HELD, paid=False),
    Status("expired", 1, RELEASED, paid=False),
    Status("cancelled", 1, RELEASED, paid=False),
    Status("paid", 2, CONFIRMED, paid=True),
    Status("fulfilled", 3, CONFIRMED, paid=True),
    Status("refund_pending", 3, RELEASED, paid=True),
    Status("refunded", 4, RELEASED, paid=False),
    Step("paid", before="awaiting_payment", after="paid", mail="paid"),
    Step("paid_late", before="expired", after="paid", mail="paid"),
    Step("fulfilled", before="paid", after="fulfilled"),
    Step("expired", "expire", before="awaiting_payment", after="expired", mail="expired"),
    Step("cancelled", "cancel", before="awaiting_payment", after="cancelled"),
    Step("returned", "refund", before="paid", after="refund_pending"),
    Step("refunded", before="refund_pending", after="refunded", mail="refunded"),
    Step("part_cancelled", "cancel"),
    Step("part_returned", "refund"),
    Step("money_owed", "owe", mail="money_owed"),
    Step("money_back", "give_back"),
    Step("refund_failed", "stuck"),
    Mail("confirmation", "reserved", deadline=True),
    Mail("paid", "paid"),
    Mail("expired", "expired"),
    Mail("refunded", "refunded"),
    Mail("money_owed", "refunding"),
)


FOREVER = 10**9
"""Seconds. No sale of a solo buyer ends, and no order expires."""

MOODS = {"payment": ("answers", "works", "declines"), "refund": ("answers", "works")}
"""What the payment provider may do when it is asked."""

NEW = "a number of its own"
"""What an order must be answered with that was not, but with that of another one."""


class Known(NamedTuple):
    """An order and its number; None until an answer has named it. `facts` tell it from others."""

    number: str | None
    facts: tuple[Any, ...]
    order: Order


class State:
    """What the shop may hold. It never changes: acts are done on copies."""

    def __init__(self, sales: list[Sale], orders: tuple[Known, ...]) -> None:
        self.sales, self.orders = sales, orders
        self._facts = (tuple(sale.total for sale in sales), tuple(each[:2] for each in orders))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._facts == other._facts

    def __hash__(self) -> int:
        return hash(self._facts)

    def sale(self, name: str) -> Sale:
        """Return a sale by its number."""
        [found] = [sale for sale in self.sales if sale.name == name]
        return found

    def shop(self) -> Shop:
        """Return the shop, whose orders are not to be changed."""
        shop = Shop(self.sales)
        shop.orders = [known.order for known in self.orders]
        return shop

    def copied(self, place: int) -> tuple[Shop, Order]:
        """Return the shop, and its order at a place, which may be changed."""
        shop = self.shop()
        order = deepcopy(shop.orders[place], {id(sale): sale for sale in self.sales})
        shop.orders[place] = order
        return shop, order

    def after(self, place: int, order: Order, number: str | None = None) -> State:
        """Return the state after the order at a place was made or changed."""
        order.timeline.clear()  # no answer shows them
        order.news.clear()
        before, rest = self.orders[:place], self.orders[place + 1 :]
        number = self.orders[place].number or number if place < len(self.orders) else number
        return State(self.sales, (*before, Known(number, _facts(order), order), *rest))


def _facts(order: Order) -> tuple[Any, ...]:
    """Return what tells an order from another one; failed payments do not."""
    return (
        *(order.buyer, order.key, order.status, order.amount, order.refunded),
        *((line.sale.name, line.quantity, line.kept) for line in order.lines),
        *sorted((p.state, p.amount, p.there) for p in order.payments if p.state != "failed"),
        *sorted(("refund", r.amount) for r in order.refunds if r.state == "pending"),
        *((key, how, line.sale.name, units) for key, (how, line, units) in order.parts.items()),
    )


class Promises:
    """The right answers of our shop to solo buyers (see `loadtest.specification.Specification`)."""

    def opened(self, sales: Mapping[str, Offer]) -> State:
        """Open sales, in order of their numbers."""
        made = [
            Sale(name, stock, price, currency, limit, -1, FOREVER, FOREVER)
            for name, (stock, limit, price, currency) in sorted(
                sales.items(), key=lambda each: int(each[0])
            )
        ]
        return State(made, ())

    def answers(self, state: State, question: Question) -> Iterator[Possible]:
        """Answer as the model does, with whatever the provider may do and have done."""
        answer = {"look": _look, "restock": _restock, "order": _buy}.get(question.op, _ask)
        yield from answer(state, question)

    def may_come_back(self, state: State, sale: str) -> frozenset[bool]:
        """Look for orders that await their payment."""
        unpaid = [
            each.order
            for each in state.orders
            if each.order.status == AWAITING
            and any(line.sale.name == sale and line.kept for line in each.order.lines)
        ]
        certain = any(not _pending(order.payments) for order in unpaid)
        return frozenset({bool(unpaid), certain})

    def without_ended(self, state: State) -> State:
        """Leave out the orders that hold no units."""
        kept = [each for each in state.orders if any(map(each.order.live, each.order.lines))]
        return State(state.sales, tuple(kept))


def _look(state: State, question: Question) -> Iterator[Possible]:
    ((name, _),) = question.wanted
    sale, shop = state.sale(name), state.shop()
    available, status = shop.available(sale), shop.status(sale)
    shown = Shown(sale.price, sale.currency, status, available=available)
    yield Possible(Said(200, shown=shown, available=available), state, "" if available else name)


def _restock(state: State, question: Question) -> Iterator[Possible]:
    ((name, units),) = question.wanted
    copy = deepcopy(state)
    copy.sale(name).total += units
    after = State(copy.sales, copy.orders)
    yield Possible(Said(200, available=after.shop().available(after.sale(name))), after)


def _buy(state: State, question: Question) -> Iterator[Possible]:
    shop = state.shop()
    wanted = {state.sale(name): units for name, units in question.wanted}
    try:
        order, again = shop.buy(question.buyer, question.key, wanted, cart=question.cart)
    except Refused as refused:
        yield from (Possible(said, state, coming) for said, coming in _no(refused, question))
        return
    place = shop.orders.index(order)
    unnamed = not again or state.orders[place].number is None
    taken = unnamed and question.order in {each.number for each in state.orders} - {None}
    named = state.after(place, order, None if taken else question.order)
    for after in _later(named, place) if again else {named}:
        said = _yes(after, place)._replace(status=200 if again else 201)
        yield Possible(said._replace(order=NEW) if taken else said, after)


def _ask(state: State, question: Question) -> Iterator[Possible]:
    places = [n for n, known in enumerate(state.orders) if known.number == question.order]
    if not places or state.orders[places[0]].order.buyer != question.buyer:
        yield Possible(Said(404, "not_found"), state)
        return
    [place] = places
    right: dict[Said, set[State]] = {}
    for before in _later(state, place):
        for after, refused in _done(before, place, question):
            if refused is not None:
                for said, _ in _no(refused, question):
                    right.setdefault(said, set()).add(after)
                continue
            for end in _later(after, place):
                right.setdefault(_yes(end, place), set()).add(end)
    for said, states in right.items():
        # One that another may yet become adds nothing.
        for each in states:
            if not any(each in _later(other, place) for other in states - {each}):
                yield Possible(said, each)


def _done(state: State, place: int, question: Question) -> Iterator[tuple[State, Refused | None]]:
    """Do what is asked about an order, whatever the payment provider does then."""
    part = None
    for name, units in question.wanted:
        part = Part(units, question.key, state.sale(name))
    for mood in MOODS.get(question.op, ("answers",)):
        shop, order = state.copied(place)
        shop.mood = mood
        refused = None
        try:
            if question.op == "payment":
                shop.pay(order)
            elif question.op == "cancel":
                order.cancel(part)
            elif question.op == "refund":
                shop.refund(order, part)
        except Refused as error:
            refused = error
        yield state.after(place, order), refused


@lru_cache(10_000)
def _later(state: State, place: int) -> frozenset[State]:
    """Return what a state may become by itself as far as an order goes; itself, too."""
    found, new = {state}, [state]
    while new:
        following = set(_next(new.pop(), place)) - found
        found |= following
        new += following
    return frozenset(found)


def _next(state: State, place: int) -> Iterator[State]:
    """End one payment of an order, well or badly, or let one refund arrive."""
    known = state.orders[place].order
    for kind, ends in (("payments", ("done", "failed")), ("refunds", ("done",))):
        for index in _pending(getattr(known, kind)):
            for news in ends:
                shop, order = state.copied(place)
                money = getattr(order, kind)[index]
                money.there = news
                shop.hear(order, money, news)
                yield state.after(place, order)


def _pending(moneys: Iterable[Money]) -> list[int]:
    return [index for index, money in enumerate(moneys) if money.state == "pending"]


def _yes(state: State, place: int) -> Said:
    """Answer with an order."""
    number, _, order = state.orders[place]
    returned = sum(line.quantity - order.live(line) for line in order.lines)
    shown = Shown(order.amount, order.currency, order.status, order.refunded, returned)
    return Said(200, order=number, shown=shown)


def _no(refused: Refused, question: Question) -> Iterator[tuple[Said, str]]:
    """Refuse; also say of which sale units may come back, if of any."""
    code, figures = refused.code, refused.figures
    status = 422 if code in ("invalid_quantity", "idempotency_key_reused") else 409
    sale = refused.about.name if refused.about and figures else ""
    said = Said(
        status,
        code,
        about=sale if question.cart else "",
        available=figures.get("available"),
        left=figures.get("left"),
    )
    yield said, sale if code == "sold_out" else ""
    if refused.or_else is not None:
        yield from _no(refused.or_else, question)
