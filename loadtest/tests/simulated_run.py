"""Clients of the model: runs that a checker must pass.

Requests and replies get lost, clients time out and ask again, time out before the request takes
effect, or die; terms change, holds expire, orders are paid (late, too), given back in parts, and
peeped at by other buyers. A call's transaction may have begun a little before the moment at which
it takes effect, as one does that waits for a lock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import count
from random import Random
from typing import Any

from loadtest.checker import snapshot as s
from loadtest.shops.flash_sale.answers import classify
from loadtest.tests.model_shop import CURRENCY, STATUS, ModelShop, Reply, clock, item_of
from loadtest.tests.simulated_world import SALE, Line, World, ending, invocation
from shop.tests.model import Money, Order, Part, Sale

PRICE = 999
NEVER = 10**6

Event = Callable[[int], object]
Asked = Sequence[dict[str, Any]]
Effect = Callable[[], Reply]
Done = Callable[[int, Reply], object]


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
        self.events: list[tuple[int, int, Event]] = []
        self.order_of = count()
        self.calls = count()
        self.keys = count()
        self.time = 0
        self.shop = ModelShop(self._sales(stock, limit), random)
        # The terms that each sale has had; processes remember them for a while.
        self.past = {sale.name: [(0, copy(sale))] for sale in self.shop.sales}
        for sale in self.shop.sales:
            self.world.terms.append(_terms(sale, clock(-9), clock(-8)))
        self.on_its_way: set[Money] = set()
        for number in range(clients):
            first = random.randint(0, 50)
            self._at(first, partial(self._shopping, f"c{number}", random.randint(1, 4)))
        if returns:
            self._returns()
        for _ in range(2):
            self._at(random.randint(10, 150), self._snapshot)

    def run(self) -> World:
        while self.events:
            self.time, _, event = heapq.heappop(self.events)
            self.shop.now = self.shop.began = self.time
            event(self.time)
            self._move_money()
        self.shop.expire()
        self.world.end = self.time + 1
        self.world.rows = self.shop.rows()
        self.world.ledger = self.shop.ledger
        self.world.deliveries = self.shop.deliveries
        return self.world

    def _at(self, time: int, event: Event) -> None:
        heapq.heappush(self.events, (time, next(self.order_of), event))

    # The sales, and what happens to them.

    def _sales(self, stock: int, limit: int) -> list[Sale]:
        draw = self.random.randint
        sales = [Sale(SALE, stock, PRICE, CURRENCY, limit, -100, NEVER, 900)]
        if self.returns:
            more = (draw(3, 30), PRICE + 1, CURRENCY, 6, self.random.choice([-100, -100, 10]))
            sales.append(Sale("2", *more, NEVER, draw(5, 40), resells_cancelled=False))
            more = (draw(3, 30), PRICE + 2, CURRENCY, 10, self.random.choice([-100, -100, 10]))
            sales.append(Sale("3", *more, NEVER, 600, resells_returned=False))
        return sales

    def _returns(self) -> None:
        for _ in range(self.random.choice([0, 0, 1])):
            self._at(self.random.randint(20, 120), self._restock)
        for _ in range(self.random.randint(0, 4)):
            self._at(self.random.randint(5, 150), self._change)
        for time in range(5, 300, 5):
            self._at(time, lambda _: self.shop.expire())
        if self.random.random() < 0.3:
            self._at(120, self._hand_over)

    def _hand_over(self, _: int) -> None:
        if paid := [each for each in self.shop.orders if each.status == "paid"]:
            self.random.choice(paid).hand_over()
            self.shop.keep_books()

    def _move_money(self) -> None:
        """Let the payment provider move what it was asked for, in its own time."""
        for order, money in self.shop.under_way():
            if money not in self.on_its_way:
                self.on_its_way.add(money)
                soon = self.time + self.random.randint(0, 8 if money.payment else 40)
                self._at(soon, partial(self._arrive, order, money))

    def _arrive(self, order: Order, money: Money, _: int) -> None:
        self.shop.arrive(order, money)

    def _change(self, time: int) -> None:
        """Change the terms of a sale; the answer may be lost."""
        sale = self.random.choice(self.shop.sales[1:])
        new: dict[str, Any] = self.random.choice(
            [
                {"paused": True},
                {"paused": False, "price": self.random.randint(1, 5_000)},
                {"closes": time + self.random.randint(-5, 5)},
                {"opens": time + self.random.randint(0, 15), "closes": NEVER},
            ]
        )
        asked = clock(time) - 500_000
        if asked <= max(each.asked for each in self.world.terms):
            return
        unknown, happens = self.random.random() < 0.2, self.random.random() < 0.7
        changed = copy(sale)
        for each in (changed, *([sale] if happens or not unknown else [])):
            vars(each).update(new)
        self.past[sale.name].append((time, copy(sale)))
        self.world.terms.append(_terms(changed, asked, 0 if unknown else clock(time) + 500_000))

    def _restock(self, time: int) -> None:
        quantity = self.random.randint(1, 3)
        asked = {"buyer": "shop", "key": "", "quantity": quantity, "order": None}

        def effect() -> Reply:
            self.shop.sales[0].total += quantity
            self.shop.keep_books()
            return Reply(200)

        self._call(time, "restock", [asked], effect, lambda *_: None)

    # The clients.

    def _shopping(self, buyer: str, purchases: int, time: int) -> None:
        if purchases:
            self._purchase(time, buyer, partial(self._shopping, buyer, purchases - 1))

    def _purchase(self, time: int, buyer: str, then: Event) -> None:
        key = f"k{next(self.keys)}"
        wanted = self._wanted()
        asked = [
            {
                "buyer": buyer,
                "key": f"{key}.{place}" if place else key,
                "quantity": quantity,
                "order": None,
                "sale": sale.name,
                "item": item_of(sale),
                **({"cart": key} if len(wanted) > 1 else {}),
            }
            for place, (sale, quantity) in enumerate(wanted.items())
        ]
        tries = self.random.randint(1, 3)

        def ask(now: int, attempt: int) -> None:
            def done(later: int, reply: Reply) -> None:
                outcome = classify(reply.status, reply.code, reply.order)
                if attempt < tries and (outcome != "fail" or reply.code == "busy"):
                    ask(later + self.random.randint(0, 5), attempt + 1)
                elif reply.order is not None:
                    self._after(later, buyer, reply.order, then, 4)
                else:
                    then(later + self.random.randint(0, 20))

            effect = partial(self._buy, buyer, key, wanted)
            self._call(now, "order", asked, effect, done, attempt)

        ask(time, 1)
        if self.random.random() < 0.2:
            again = partial(self._buy, buyer, key, wanted)
            self._call(time, "order", asked, again, lambda *_: None, 9)

    def _wanted(self) -> dict[Sale, int]:
        sales = self.shop.sales
        lines = self.random.choice([1, 1, 2, 3]) if len(sales) > 1 else 1
        chosen = sorted(self.random.sample(sales, lines), key=lambda sale: sale.name)
        return {sale: self.random.randint(1, sale.limit) for sale in chosen}

    def _buy(self, buyer: str, key: str, wanted: dict[Sale, int]) -> Reply:
        """Buy; a process may be busy, or remember that a sale is closed."""
        if not any(order.key == key for order in self.shop.orders):
            if self.random.random() < self.trouble / 4:
                return Reply(503, "busy")
            then = self.shop.began - self.random.randint(0, 2)
            for sale in wanted:
                known = [each for since, each in self.past[sale.name] if since <= max(then, 0)][-1]
                if code := known.closed(self.shop.began):
                    return Reply(STATUS[code], code, about=sale.name)
        units = {sale.name: quantity for sale, quantity in wanted.items()}
        return self.shop.order(buyer, key, units, cart=len(wanted) > 1)

    def _after(self, time: int, buyer: str, order: str, then: Event, steps: int) -> None:
        """What a buyer does with an order, one thing after the other."""
        ops = ["read", "payment"]
        if self.returns:
            ops += 3 * ["payment"] + ["cancel", "refund", "peep"]
            ops += 2 * ["part cancel", "part refund"]
        what = self.random.choice([*ops, "nothing"])
        if what == "nothing" or not steps:
            then(time)
            return

        def done(later: int, _: Reply) -> None:
            self._after(later + self.random.randint(0, 10), buyer, order, then, steps - 1)

        start = time + self.random.randint(0, 20)
        if what == "peep":
            found = self.shop.id_of(self.random.choice(self.shop.orders))
            op = self.random.choice(["read", "payment", "cancel", "refund"])
            self._step(start, op, buyer, found, None, done)
        elif what.startswith("part "):
            bought = self.shop.find(order)
            assert bought is not None
            line = self.random.choice(bought.lines)
            part = Part(self.random.randint(1, line.quantity), f"k{next(self.keys)}", line.sale)
            for _ in range(self.random.choice([0, 0, 1])):
                self._step(start, what[5:], buyer, order, part, lambda *_: None)
            self._step(start, what[5:], buyer, order, part, done)
        else:
            self._step(start, what, buyer, order, None, done)

    def _step(
        self, time: int, op: str, buyer: str, order: str, part: Part | None, done: Done
    ) -> None:
        asked: dict[str, Any] = {"buyer": buyer, "key": "", "quantity": 0, "order": order}
        if part is not None and part.sale is not None:
            asked |= {"key": part.key, "quantity": part.units, "sale": part.sale.name}
        self._call(time, op, [asked], partial(self.shop.answer, op, buyer, order, part), done)

    def _call(
        self, time: int, op: str, asked: Asked, effect: Effect, done: Done, attempt: int = 1
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

        def take_effect(_: int) -> Reply:
            self.shop.began = began
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
            self._at(happens, take_effect)
        if self.random.random() < 0.8:
            gives_up = time + self.random.randint(0, 40)
            self._at(gives_up, partial(finish, Reply(0, "timeout")))

    def _snapshot(self, time: int) -> None:
        self.world.during.append((time, list(self.shop.items())))


def _terms(sale: Sale, asked: int, done: int) -> s.Terms:
    window = clock(sale.opens), clock(sale.closes)
    return s.Terms(sale.name, asked, done, sale.price, *window, paused=sale.paused)
