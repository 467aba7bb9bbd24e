"""A correct shop and its clients in simulated time: the histories that a checker must pass.

The shop is linearizable by construction: every call takes effect at one moment between its begin
and its end. Requests and replies get lost, clients time out and ask again, time out before the
request takes effect, or die; reservations run out, orders are cancelled, stock is restocked.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from loadtest.checker import snapshot as s
from loadtest.history import INVOKE, classify

SALE, ITEM = "1", "7"
FIRST_TOKEN = 1_000


@dataclass
class Line:
    """A history line with its place in time; `call` pairs it with the other one."""

    time: int
    call: str
    values: dict[str, Any]

    def json(self) -> str:
        return json.dumps({"time": self.time, "call": self.call, **self.values})


@dataclass
class World:
    """What a run leaves behind, ready to be damaged by a test before it is judged."""

    lines: list[Line] = field(default_factory=list)
    rows: list[s.Row] = field(default_factory=list)
    during: list[tuple[int, list[s.Row]]] = field(default_factory=list)
    ledger: list[s.Payment] = field(default_factory=list)
    end: int = 0

    def of(self, kind: type) -> list[Any]:
        return [row for row in self.rows if isinstance(row, kind)]

    def change(self, row: s.Row, **values: Any) -> None:
        self.rows[self.rows.index(row)] = replace(row, **values)

    def answers(self, event: str, op: str = "order") -> list[Line]:
        invoked = {line.call: line for line in self.lines if line.values["event"] == INVOKE}
        return [
            line
            for line in self.lines
            if line.values["event"] == event and invoked[line.call].values["op"] == op
        ]

    def call(
        self, start: int, end: int, op: str, status: int, code: str = "", **values: Any
    ) -> str:
        """Add a call that nobody made; returns its key."""
        call = f"planted#{len(self.lines)}"
        key = f"planted-{len(self.lines)}"
        asked = {"order": None, "buyer": call, "key": key, "quantity": 1, **values}
        self.lines.append(Line(start, call, _invocation(op, 1, asked)))
        order = asked["order"]
        event = classify(status, code, order, op=op)
        ending = {"event": event, "status": status, "code": code, "order": order}
        self.lines.append(Line(end, call, ending))
        return key

    def write(self, folder: Path) -> dict[str, Any]:
        """Write all files; returns the arguments of `judge`."""
        folder.mkdir(parents=True, exist_ok=True)
        # An invocation before an answer of the same moment, as any recorder writes them.
        lines = sorted(self.lines, key=lambda line: (line.time, line.values["event"] != INVOKE))
        histories = [folder / "a.jsonl", folder / "b.jsonl"]
        for parity, path in enumerate(histories):
            path.write_text(
                "".join(f"{each.json()}\n" for each in lines if len(each.call) % 2 == parity)
            )
        s.write(folder / "final", s.Header(self.end, ("confirmation",)), self.rows)
        during = [folder / f"during-{number}" for number, _ in enumerate(self.during)]
        for path, (taken_at, rows) in zip(during, self.during, strict=True):
            s.write(path, s.Header(taken_at), rows)
        s.write(folder / "ledger", s.Header(0), self.ledger)
        return {
            "histories": histories,
            "snapshot": folder / "final",
            "during": during,
            "ledger": folder / "ledger",
        }


def _invocation(op: str, attempt: int, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "event": INVOKE,
        "op": op,
        "client": asked["buyer"],
        "attempt": attempt,
        "sale": SALE,
        "item": ITEM,
        **asked,
    }


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
        """`trouble` is the share of calls that get lost; without `returns` stock only leaves."""
        self.random = random
        self.limit = limit
        self.trouble = trouble
        self.returns = returns
        self.world = World()
        self.events: list[tuple[int, int, Callable[[int], None]]] = []
        self.order_of = count()
        self.calls = count()
        self.keys = count()
        self.total = self.available = 0
        self.reservations: dict[str, s.Reservation] = {}
        self.movements: list[s.Movement] = []
        self._move(stock, "restock")
        for number in range(clients):
            self._at(random.randint(0, 50), self._shopping(f"c{number}", random.randint(1, 4)))
        if returns:
            for _ in range(random.choice([0, 0, 1])):
                self._at(random.randint(20, 120), self._restock)
            for _ in range(random.choice([0, 0, 1, 3])):
                self._at(random.randint(20, 120), self._expire)
        for _ in range(2):
            self._at(random.randint(10, 150), self._snapshot)

    def run(self) -> World:
        time = 0
        while self.events:
            time, _, event = heapq.heappop(self.events)
            event(time)
        self.world.end = time + 1
        self.world.rows = self._rows()
        for order in self.world.of(s.Order):
            self.world.ledger.append(s.Payment(f"c{order.id}", order.id, "capture", order.amount))
        return self.world

    def _at(self, time: int, event: Callable[[int], None]) -> None:
        heapq.heappush(self.events, (time, next(self.order_of), event))

    # The clients.

    def _shopping(self, buyer: str, wishes: int) -> Callable[[int], None]:
        def go(time: int) -> None:
            if wishes:
                self._wish(time, buyer, self._shopping(buyer, wishes - 1))

        return go

    def _wish(self, time: int, buyer: str, then: Callable[[int], None]) -> None:
        key, quantity = f"k{next(self.keys)}", self.random.randint(1, max(1, self.limit))
        tries = self.random.randint(1, 3)
        double = self.random.random() < 0.2

        def ask(now: int, attempt: int) -> None:
            def done(later: int, status: int, code: str, order: str | None) -> None:
                outcome = classify(status, code, order)
                if attempt < tries and (outcome != "fail" or code == "busy"):
                    ask(later + self.random.randint(0, 5), attempt + 1)
                elif order is not None:
                    self._after(later, buyer, order, then)
                else:
                    then(later + self.random.randint(0, 20))

            self._call(
                now,
                "order",
                buyer,
                lambda: self._order(buyer, key, quantity),
                done,
                key=key,
                quantity=quantity,
                attempt=attempt,
            )

        ask(time, 1)
        if double:
            self._call(
                time,
                "order",
                buyer,
                lambda: self._order(buyer, key, quantity),
                lambda *_: None,
                key=key,
                quantity=quantity,
                attempt=9,
            )

    def _after(self, time: int, buyer: str, order: str, then: Callable[[int], None]) -> None:
        what = self.random.choice(["read", "nothing", "cancel" if self.returns else "read"])
        if what == "nothing":
            then(time)
            return

        def done(later: int, *_: Any) -> None:
            then(later + self.random.randint(0, 10))

        effect = (lambda: self._read(order)) if what == "read" else (lambda: self._cancel(order))
        self._call(time + self.random.randint(0, 20), what, buyer, effect, done, order=order)

    def _call(
        self,
        time: int,
        op: str,
        buyer: str,
        effect: Callable[[], tuple[int, str, str | None]],
        done: Callable[..., None],
        *,
        key: str = "",
        quantity: int = 0,
        attempt: int = 1,
        order: str | None = None,
    ) -> None:
        call = f"{buyer}#{next(self.calls)}"
        asked = {"buyer": buyer, "key": key, "quantity": quantity, "order": order}
        self.world.lines.append(Line(time, call, _invocation(op, attempt, asked)))
        happens = time + self.random.randint(0, 15)
        ends = happens + self.random.randint(0, 15)
        fate = self.random.random()

        def finish(now: int, answer: tuple[int, str, str | None]) -> None:
            status, code, named = answer
            event = classify(status, code, named, op=op)
            ending = {"event": event, "status": status, "code": code, "order": named}
            self.world.lines.append(Line(now, call, ending))
            done(now, status, code, named)

        if fate > self.trouble:
            self._at(happens, lambda _: self._at(ends, _finishing(finish, effect())))
            return
        # The request got lost, or the reply did, or the client went first and it happened later.
        if self.random.random() < 0.7:
            self._at(happens, lambda _: _ignore(effect()))
        if self.random.random() < 0.8:
            gives_up = time + self.random.randint(0, 40)
            self._at(gives_up, _finishing(finish, (0, "timeout", None)))

    # The shop.

    def _move(self, delta: int, reason: str) -> None:
        number = len(self.movements) + 1
        token = FIRST_TOKEN + number // 2
        self.movements.append(s.Movement(number, ITEM, delta, reason, token))
        self.available += delta
        if reason == "restock":
            self.total += delta

    def _order(self, buyer: str, key: str, quantity: int) -> tuple[int, str, str | None]:
        if key in self.reservations:
            return 200, "", f"o{self.reservations[key].id}"
        if self.random.random() < self.trouble / 4:
            return 503, "busy", None
        if self._bought(buyer) + quantity > self.limit:
            return 409, "limit_reached", None
        if self.available < quantity:
            return 409, "sold_out", None
        self._move(-quantity, "sell")
        number = str(len(self.reservations) + 1)
        self.reservations[key] = s.Reservation(
            number, ITEM, f"user {buyer}", key, quantity, self.random.choice([s.HELD, s.CONFIRMED])
        )
        return 201, "", f"o{number}"

    def _bought(self, buyer: str) -> int:
        live = [r for r in self.reservations.values() if r.state != s.RELEASED]
        return sum(r.quantity for r in live if r.buyer == f"user {buyer}")

    def _read(self, order: str) -> tuple[int, str, str | None]:
        return 200, "", order

    def _cancel(self, order: str) -> tuple[int, str, str | None]:
        for reservation in self.reservations.values():
            if f"o{reservation.id}" == order and self._release(reservation):
                return 200, "", order
        return 409, "wrong_state", order

    def _release(self, reservation: s.Reservation) -> bool:
        if reservation.state != s.HELD:
            return False
        self.reservations[reservation.key] = replace(reservation, state=s.RELEASED)
        self._move(reservation.quantity, "return")
        return True

    def _expire(self, _: int) -> None:
        held = [r for r in self.reservations.values() if r.state == s.HELD]
        if held:
            self._release(self.random.choice(held))

    def _restock(self, time: int) -> None:
        quantity = self.random.randint(1, 3)

        def effect() -> tuple[int, str, str | None]:
            self._move(quantity, "restock")
            return 200, "", None

        self._call(time, "restock", "shop", effect, lambda *_: None, quantity=quantity)

    def _snapshot(self, time: int) -> None:
        self.world.during.append((time, [self._item()]))

    def _item(self) -> s.Item:
        def sum_of(state: str) -> int:
            return sum(r.quantity for r in self.reservations.values() if r.state == state)

        ledger, fence = sum(m.delta for m in self.movements), self.movements[-1].token
        return s.Item(
            ITEM, self.total, self.available, sum_of(s.HELD), sum_of(s.CONFIRMED), ledger, fence
        )

    def _rows(self) -> list[s.Row]:
        rows: list[s.Row] = [self._item(), s.Sale(SALE, ITEM, self.limit), *self.movements]
        for r in self.reservations.values():
            order = f"o{r.id}"
            rows.append(r)
            rows.append(s.Order(order, r.id, SALE, ITEM, r.buyer, r.key, r.quantity, 999))
            rows.append(s.Effect(order, "confirmation", 1))
            rows.append(s.Outbox(r.id, "order_opened", True))
        return rows


def _finishing(finish: Callable[..., None], answer: Any) -> Callable[[int], None]:
    return lambda now: finish(now, answer)


def _ignore(_: object) -> None:
    """The answer that nobody received."""
