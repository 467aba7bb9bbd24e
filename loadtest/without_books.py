"""The sales of a run at a shop whose books cannot be read: its buyers are asked in their place.

When all is at rest, every order that a buyer was answered with is read in the buyer's name. What
they are shown is judged: that each promised order is there, that there are not more of them than
units, that nobody has more than the limit, and that no answer contradicts another one. What only
the books tell (stranded units, orders that nobody asked for, the ledger) is left open, and the
verdict says so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from loadtest.ask_again import ask_again
from loadtest.checker import BY_ANSWERS, PROPERTIES, snapshot
from loadtest.checker.snapshot import Item
from loadtest.client import Connection
from loadtest.files import take_tokens
from loadtest.full_shop import Answer
from loadtest.history import AGAIN, OK, Operation, Recorder, operations
from loadtest.purchases import Sale
from loadtest.rest import Figures, at_rest
from loadtest.run_plan import RunPlan
from loadtest.sale_roles import MAIN
from loadtest.sales import ASKING_AGAIN, FOLLOWING_UP, OPENING, READING, Sales
from loadtest.shopper import Crowd, Shopper
from loadtest.users import find_sale, look_at

NO_BOOKS = "the shop's books cannot be read here"
WAS_OPEN = "the sale had opened before the run: units of earlier orders may have come back"

AT_ONCE = 8
"""Orders that are read at the same time."""

TRIES = 5
"""How often an order is asked for that is not answered."""

PAUSE = 1.0
"""Seconds between two tries, and between two looks at a sale that is to come to rest."""

REST = 60.0
"""Seconds in which the sale must come to show the same stock twice."""


class WithoutBooks(Sales):
    """The sales of one run, as their buyers see them; see `Sales`."""

    def open(self, plan: RunPlan) -> None:
        """Look at the sales, which the plan names. Raises `RunImpossible`."""
        self.show.step(OPENING)
        self._sold = [find_sale(self.shop, sale) for sale in plan.sales.values()]
        self._rows: list[snapshot.Row] = []
        self.sale, self.opening = plan.sale, self._sold[0].opens_at
        self.plan = replace(plan, levels=self.shop.full_levels, books=False)
        self._began = {sale.id: self._available(sale) for sale in self._sold}
        self._was_open = min(sale.opens_at for sale in self._sold) < time.monotonic()
        left_open = dict.fromkeys(sorted(PROPERTIES.keys() - {*BY_ANSWERS}), NO_BOOKS)
        if self._was_open:
            left_open["P1"] = WAS_OPEN
        units = max(1, self._began[self.sale])
        self.plan = replace(self.plan, stock=units, left_open={**plan.left_open, **left_open})

    def items(self) -> list[Item]:
        """Look at the main sale; what is held and sold, its page does not show."""
        self.ask_figures()
        return []

    def ask_figures(self) -> bool:
        """Read what the main sale shows; return whether the shop answered."""
        available = self._available(self._sold[0])
        self.answers = available >= 0
        if self.answers:
            units = self._began[self.sale]
            self.figures = {**self.figures, "total": units, "available": available}
            self.read_at = time.monotonic()
        return self.answers

    def rest(self) -> bool:
        """Wait until the main sale shows the same stock twice."""

        def look(since: float) -> Figures | None:
            self.show.step(FOLLOWING_UP, since)
            return (self.figures["available"],) if self.ask_figures() else None

        if not at_rest(look, REST, PAUSE):
            self.reason = self.reason or "the sale did not come to rest"
        return not self.reason

    def ask_again(self) -> bool:
        """Repeat some purchases under their old keys, and read every order that was promised."""
        tokens = take_tokens(self.files.path)
        self.show.step(ASKING_AGAIN)
        ask_again(self.files, self.shop, self.plan.seed, tokens)
        self.show.step(READING)
        self._rows = list(self._read_orders(tokens))
        return True

    def read(self) -> None:
        """Write down what the buyers were shown, as far as all of it could be read."""
        if self.reason:
            return
        live: Counter[str] = Counter()
        for row in self._rows:
            if isinstance(row, snapshot.Reservation) and row.state != snapshot.RELEASED:
                live[row.item] += row.quantity - row.returned
        rows = [*self.shop.lifecycle, *self._rows]
        for sale in self._sold:
            item, held = _item(sale), live[_item(sale)]
            left = max(0, self._available(sale))
            units = left + held if self._was_open else self._began[sale.id]
            rows += [
                snapshot.Sale(sale.id, item, sale.limit),
                Item(item, units, left, held, 0, left),
            ]
        snapshot.write(self.files.final, snapshot.Header(time.monotonic_ns()), rows)

    def _available(self, sale: Sale) -> int:
        """Return the units that the sale shows as available; -1 if it does not answer."""
        shown = look_at(self.shop, sale.id).shown
        return -1 if shown is None or shown.available is None else shown.available

    def _read_orders(self, tokens: Mapping[str, str]) -> Iterator[snapshot.Row]:
        """Yield the orders that buyers were answered with, as the shop shows them now."""
        promised = _promised(operations(*self.files.histories()))
        whose = {order: next(iter(lines.values())).buyer for order, lines in promised.items()}
        asked = [order for order, buyer in whose.items() if buyer in tokens]
        recorder = Recorder(self.files.path / "read.jsonl")
        crowd = Crowd(self.shop, {MAIN: self._sold[0]}, recorder, tokens.__getitem__)
        with closing(recorder), ThreadPoolExecutor(AT_ONCE) as pool:
            read = partial(_read, crowd)
            answers = dict(zip(asked, pool.map(read, asked, map(whose.get, asked)), strict=True))
        for order, lines in promised.items():
            answer = answers.get(order)
            if answer is None or answer.shown is None:
                lost = answer is not None and answer.status == HTTPStatus.NOT_FOUND
                if not lost:
                    self.reason = self.reason or f"order {order} cannot be read in its buyer's name"
                continue
            yield from self._shown(order, lines, answer)

    def _shown(
        self, order: str, lines: Mapping[str, Operation], answer: Answer
    ) -> Iterator[snapshot.Row]:
        assert answer.shown is not None
        statuses = [row for row in self.shop.lifecycle if isinstance(row, snapshot.Status)]
        stock = {row.name: row.stock for row in statuses}
        state = stock.get(answer.shown.status, snapshot.RELEASED)
        back = answer.shown.returned or 0  # of all lines together
        item_of = {sale.id: _item(sale) for sale in self._sold}
        for key, line in lines.items():
            returned = min(back, line.quantity)
            back -= returned
            sale = line.sale or ""
            about = (item_of.get(sale, sale), line.buyer, key, line.quantity)
            yield snapshot.Reservation(key, *about, state, returned)
            yield snapshot.Order(order, key, sale, *about, status=answer.shown.status)


def _promised(calls: Iterator[Operation]) -> dict[str, dict[str, Operation]]:
    """Return the lines of each order that a buyer was answered with, by their keys."""
    found: dict[str, dict[str, Operation]] = {}
    for call in calls:
        if call.op == "order" and call.outcome == OK and call.order and call.key:
            found.setdefault(call.order, {}).setdefault(call.key, call)
    return found


def _read(crowd: Crowd, order: str, buyer: str) -> Answer:
    """Ask for an order in its buyer's name, until there is an answer about it."""
    shopper = Shopper(crowd, buyer, Connection(*crowd.shop.address), client=f"{AGAIN}read.{order}")
    try:
        for _ in range(TRIES):
            answer = shopper.read(order)
            if answer.shown is not None or answer.status == HTTPStatus.NOT_FOUND:
                break
            time.sleep(PAUSE)
    finally:
        shopper.leave()
    return answer


def _item(sale: Sale) -> str:
    return sale.item or f"of sale {sale.id}"
