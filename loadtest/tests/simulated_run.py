"""Clients of the simulated shop: runs that a checker must pass.

Requests and replies get lost, clients time out and ask again, time out before the request takes
effect, or die; terms change, holds expire, orders are paid (late, too), given back in parts, and
peeped at by other buyers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.shops.flash_sale.answers import classify
from loadtest.tests.simulated_shop import Shop
from loadtest.tests.simulated_world import (
    CURRENCY,
    ITEM,
    SALE,
    Line,
    Order,
    Part,
    Reply,
    Sale,
    World,
    clock,
    ending,
    invocation,
)

PRICE = 999
NEVER = clock(10**6)


class Simulation:
    """One run, drawn from `random`."""

    def __init__(
        self,
        random: Random,
        *,
        stock: int,
        limit: int,
        clients: int,
        trouble: float = 0.2,
        returns: bool = True,
    ) -> None:
        """`trouble` is the share of calls that get lost.

        Without `returns` there is one sale, and stock only leaves.
        """
        self.random = random
        self.trouble = trouble
        self.returns = returns
        self.world = World()
        self.events: list[tuple[int, int, Callable[[int], None]]] = []
        self.order_of = count()
        self.calls = count()
        self.keys = count()
        self.time = 0
        self.shop = Shop(random, list(self._open_sales(stock, limit)), self._later)
        for sale in self.shop.sales.values():
            self.shop.restock(sale, stock if sale.id == SALE else random.randint(3, 30))
        for number in range(clients):
            self._at(random.randint(0, 50), self._shopping(f"c{number}", random.randint(1, 4)))
        if returns:
            self._returns()
        for _ in range(2):
            self._at(random.randint(10, 150), self._snapshot)

    def run(self) -> World:
        while self.events:
            self.time, _, event = heapq.heappop(self.events)
            event(self.time)
        self.shop.now = self.time
        self.shop.expire()
        self.world.end = self.time + 1
        self.world.rows = self._rows()
        self.world.ledger = self.shop.ledger
        self.world.deliveries = self.shop.deliveries
        return self.world

    def _at(self, time: int, event: Callable[[int], None]) -> None:
        heapq.heappush(self.events, (time, next(self.order_of), event))

    def _later(self, ticks: int, event: Callable[[], None]) -> None:
        def go(time: int) -> None:
            self.shop.now = time
            event()

        self._at(self.time + ticks, go)

    # The sales, and what happens to them.

    def _open_sales(self, stock: int, limit: int) -> Sequence[Sale]:
        sales = [Sale(SALE, ITEM, limit, hold=900)]
        if self.returns:
            brief = self.random.randint(5, 40)
            sales += [
                Sale("2", "8", 6, brief, restock_cancelled=False),
                Sale("3", "9", 10, 600, restock_returned=False),
            ]
        for number, sale in enumerate(sales):
            starts_at = clock(self.random.choice([-100, -100, 10]) if number else -100)
            first = s.Terms(sale.id, clock(-9), clock(-8), PRICE + number, starts_at, NEVER)
            sale.terms.append((0, first))
            self.world.terms.append(first)
        return sales

    def _returns(self) -> None:
        for _ in range(self.random.choice([0, 0, 1])):
            self._at(self.random.randint(20, 120), self._restock)
        for _ in range(self.random.randint(0, 4)):
            self._at(self.random.randint(5, 150), self._change)
        for time in range(5, 300, 5):
            self._later(time, self.shop.expire)
        if self.random.random() < 0.3:
            self._later(120, self.shop.fulfil)

    def _change(self, time: int) -> None:
        """Change the terms of a sale; the answer may be lost."""
        sale = self.shop.sales[self.random.choice(["2", "3"])]
        new: dict[str, Any] = self.random.choice(
            [
                {"paused": True},
                {"paused": False, "price": self.random.randint(1, 5_000)},
                {"ends_at": clock(time + self.random.randint(-5, 5))},
                {"starts_at": clock(time + self.random.randint(0, 15)), "ends_at": NEVER},
            ]
        )
        if clock(time) - 500_000 <= max(each.asked for each in self.world.terms):
            return
        unknown, happens = self.random.random() < 0.2, self.random.random() < 0.7
        asked = clock(time) - 500_000
        done = 0 if unknown else clock(time) + 500_000
        self.shop.now = time
        row = replace(sale.terms[-1][1], **new, asked=asked, done=done)
        self.world.terms.append(row)
        if happens or not unknown:
            sale.terms.append((time, row))

    def _restock(self, time: int) -> None:
        quantity = self.random.randint(1, 3)
        asked = {"buyer": "shop", "key": "", "quantity": quantity, "order": None}
        sale = self.shop.sales[SALE]
        effect = partial(self.shop.restock, sale, quantity)
        self._call(time, "restock", [asked], effect, lambda *_: None)

    # The clients.

    def _shopping(self, buyer: str, purchases: int) -> Callable[[int], None]:
        def go(time: int) -> None:
            if purchases:
                self._purchase(time, buyer, self._shopping(buyer, purchases - 1))

        return go

    def _purchase(self, time: int, buyer: str, then: Callable[[int], None]) -> None:
        key = f"k{next(self.keys)}"
        wanted = self._wanted()
        asked = [
            {
                "buyer": buyer,
                "key": f"{key}.{place}" if place else key,
                "quantity": quantity,
                "order": None,
                "sale": sale,
                "item": self.shop.sales[sale].item,
                **({"cart": key} if len(wanted) > 1 else {}),
            }
            for place, (sale, quantity) in enumerate(wanted)
        ]
        tries = self.random.randint(1, 3)

        def effect() -> Reply:
            busy = self.random.random() < self.trouble / 4
            return self.shop.buy(buyer, key, wanted, busy)

        def ask(now: int, attempt: int) -> None:
            def done(later: int, reply: Reply) -> None:
                outcome = classify(reply.status, reply.code, reply.order)
                if attempt < tries and (outcome != "fail" or reply.code == "busy"):
                    ask(later + self.random.randint(0, 5), attempt + 1)
                elif reply.order is not None:
                    self._after(later, buyer, self.shop.orders[reply.order], then, 4)
                else:
                    then(later + self.random.randint(0, 20))

            self._call(now, "order", asked, effect, done, attempt)

        ask(time, 1)
        if self.random.random() < 0.2:
            self._call(time, "order", asked, effect, lambda *_: None, 9)

    def _wanted(self) -> list[tuple[str, int]]:
        sales = list(self.shop.sales)
        lines = self.random.choice([1, 1, 2, 3]) if len(sales) > 1 else 1
        chosen = sorted(self.random.sample(sales, lines))
        return [(sale, self.random.randint(1, self.shop.sales[sale].limit)) for sale in chosen]

    def _after(
        self, time: int, buyer: str, order: Order, then: Callable[[int], None], steps: int
    ) -> None:
        """What a buyer does with an order, one thing after the other."""
        ops = ["read", "payment"]
        if self.returns:
            ops += (
                3 * ["payment"] + ["cancel", "refund", "peep"] + 2 * ["part cancel", "part refund"]
            )
        what = self.random.choice([*ops, "nothing"])
        if what == "nothing" or not steps:
            then(time)
            return

        def done(later: int, _: Reply) -> None:
            self._after(later + self.random.randint(0, 10), buyer, order, then, steps - 1)

        start = time + self.random.randint(0, 20)
        if what == "peep":
            found = self.random.choice(list(self.shop.orders.values()))
            op = self.random.choice(["read", "payment", "cancel", "refund"])
            self._step(start, op, buyer, found, None, done)
        elif what.startswith("part "):
            line = self.random.choice(order.lines)
            quantity = self.random.randint(1, line.quantity)
            part = Part(f"k{next(self.keys)}", line.sale.id, quantity)
            for _ in range(self.random.choice([0, 0, 1])):
                self._step(start, what[5:], buyer, order, part, lambda *_: None)
            self._step(start, what[5:], buyer, order, part, done)
        else:
            self._step(start, what, buyer, order, None, done)

    def _step(
        self,
        time: int,
        op: str,
        buyer: str,
        order: Order,
        part: Part | None,
        done: Callable[[int, Reply], None],
    ) -> None:
        shop = self.shop
        effects: dict[str, Callable[[], Reply]] = {
            "read": partial(shop.read, buyer, order.id),
            "payment": partial(shop.pay, buyer, order.id),
            "cancel": partial(shop.cancel, buyer, order.id, part),
            "refund": partial(shop.refund, buyer, order.id, part),
        }
        asked: dict[str, Any] = {"buyer": buyer, "key": "", "quantity": 0, "order": order.id}
        if part is not None:
            asked |= {"key": part.key, "quantity": part.quantity, "sale": part.sale}
        self._call(time, op, [asked], effects[op], done)

    def _call(
        self,
        time: int,
        op: str,
        asked: Sequence[dict[str, Any]],
        effect: Callable[[], Reply],
        done: Callable[[int, Reply], None],
        attempt: int = 1,
    ) -> None:
        """Send a request, recorded once for each of its lines."""
        number = next(self.calls)
        calls = [f"{each['buyer']}#{number}.{place}" for place, each in enumerate(asked)]
        for call, line in zip(calls, asked, strict=True):
            self.world.lines.append(Line(time, call, invocation(op, attempt, line)))
        happens = time + self.random.randint(0, 15)
        began = self.random.choice([happens, self.random.randint(time, happens)])
        ends = happens + self.random.randint(0, 15)
        fate = self.random.random()

        def take_effect(now: int) -> Reply:
            self.shop.now, self.shop.began = now, began
            return effect()

        def finish(reply: Reply, now: int) -> None:
            for call, line in zip(calls, asked, strict=True):
                another = reply.about and reply.about != line.get("sale")
                code = "not_without_another_line" if another and len(asked) > 1 else reply.code
                named = reply.order or line["order"]
                told = ending(op, reply.status, code, named, reply.shown)
                self.world.lines.append(Line(now, call, told))
            done(now, reply)

        if fate > self.trouble:
            self._at(happens, lambda now: self._at(ends, partial(finish, take_effect(now))))
            return
        # The request got lost, or the reply did, or the client went first and it happened later.
        if self.random.random() < 0.7:
            self._at(happens, lambda now: _ignore(take_effect(now)))
        if self.random.random() < 0.8:
            gives_up = time + self.random.randint(0, 40)
            self._at(gives_up, partial(finish, Reply(0, "timeout")))

    # What is left.

    def _snapshot(self, time: int) -> None:
        self.world.during.append((time, list(self._items())))

    def _items(self) -> Sequence[s.Item]:
        def sum_of(sale: Sale, state: str) -> int:
            lines = (line for order in self.shop.orders.values() for line in order.lines)
            return sum(each.live for each in lines if each.sale is sale and each.state == state)

        def item(sale: Sale) -> s.Item:
            mine = [each for each in self.shop.movements if each.item == sale.item]
            ledger, fence = sum(each.delta for each in mine), mine[-1].token
            held, confirmed = sum_of(sale, s.HELD), sum_of(sale, s.CONFIRMED)
            return s.Item(sale.item, sale.total, sale.available, held, confirmed, ledger, fence)

        return [item(sale) for sale in self.shop.sales.values()]

    def _rows(self) -> list[s.Row]:
        rows: list[s.Row] = [*self._items(), *self.shop.movements, *self.shop.events]
        for sale in self.shop.sales.values():
            price, hold = sale.terms[-1][1].price, 1_000_000 * sale.hold
            rules = sale.restock_cancelled, sale.restock_returned
            rows.append(s.Sale(sale.id, sale.item, sale.limit, price, CURRENCY, hold, *rules))
        buyers = {order.buyer for order in self.shop.orders.values()}
        rows += [s.Buyer(f"user {buyer}", f"{buyer}@example.com") for buyer in sorted(buyers)]
        for order in self.shop.orders.values():
            rows += _order_rows(order)
            rows.append(s.Effect(order.id, "confirmation", 1))
            rows.append(s.Outbox(order.id, "order_opened", True))
        return rows


def _order_rows(order: Order) -> list[s.Row]:
    rows: list[s.Row] = []
    buyer, deadline = f"user {order.buyer}", clock(order.pay_before)
    for line in order.lines:
        item, sale = line.sale.item, line.sale.id
        rows.append(
            s.Reservation(
                *(line.number, item, buyer, line.key, line.quantity, line.state),
                returned=line.returned,
                deadline=deadline,
            )
        )
        rows.append(
            s.Order(
                *(order.id, line.number, sale, item, buyer, line.key, line.quantity),
                amount=line.price * line.quantity,
                status=order.status,
                created=clock(order.created),
                currency=CURRENCY,
                to_pay=order.amount,
                refunded=order.refunded,
                pay_before=deadline,
            )
        )
    return rows


def _ignore(_: object) -> None:
    """The answer that nobody received."""
