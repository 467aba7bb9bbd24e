"""What a simulated run leaves behind: history and books."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.files import RunFiles
from loadtest.history import INVOKE
from loadtest.shops.flash_sale.answers import classify
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE
from loadtest.tests.model_shop import clock

SALE, ITEM = "1", "7"
SECOND = 10**9


@dataclass
class Line:
    """A history line with its place in time; `call` pairs it with the other one."""

    time: int
    call: str
    values: dict[str, Any]

    def json(self, tick: int) -> str:
        return json.dumps({"time": self.time * tick, "call": self.call, **self.values})


@dataclass
class World:
    """What a run leaves behind, ready to be damaged by a test before it is judged.

    Times are counted in ticks of so many ns.
    """

    lines: list[Line] = field(default_factory=list)
    rows: list[s.Row] = field(default_factory=list)
    during: list[tuple[int, list[s.Row]]] = field(default_factory=list)
    ledger: list[s.Payment] = field(default_factory=list)
    deliveries: list[s.Delivery] = field(default_factory=list)
    terms: list[s.Terms] = field(default_factory=list)
    end: int = 0
    tick: int = SECOND

    def of(self, kind: type) -> list[Any]:
        return [row for row in self.rows if isinstance(row, kind)]

    def change(self, row: s.Row, **values: Any) -> None:
        self.rows[self.rows.index(row)] = replace(row, **values)

    def add(self, row: s.Row, **differences: int) -> None:
        """Change numbers of a row by so much."""
        new = {name: getattr(row, name) + more for name, more in differences.items()}
        self.change(row, **new)

    @property
    def item(self) -> s.Item:
        """The item, in a run of one."""
        (item,) = self.of(s.Item)
        return item

    @property
    def order(self) -> s.Order:
        """The first order."""
        return self.of(s.Order)[0]

    def copy(self, row: s.Row, **values: Any) -> None:
        """Add a row that differs from another one in these values."""
        self.rows.append(replace(row, **values))

    def later(self, op: str, status: int, code: str = "", **values: Any) -> None:
        """Add a call after the end of the run."""
        self.call(self.end + 1, self.end + 2, op, status, code, **values)

    def calls(self, *ops: str) -> list[tuple[Line, Line]]:
        """Calls that were answered, with their answers."""
        invoked = {each.call: each for each in self.lines if each.values["event"] == INVOKE}
        ends = [each for each in self.lines if each.values["event"] != INVOKE]
        pairs = [(invoked[each.call], each) for each in ends]
        return [pair for pair in pairs if pair[0].values["op"] in ops]

    def buyer_of(self, order: s.Order) -> str:
        """The client's name of an order's buyer."""
        asked = (each.values for each in self.lines if each.values.get("key") == order.key)
        return str(next(asked)["buyer"])

    def call(
        self,
        start: int,
        end: int,
        op: str,
        status: int,
        code: str = "",
        *,
        call: str = "",
        shown: dict[str, Any] | None = None,
        told: dict[str, Any] | None = None,
        orders: Sequence[str] = (),
        **values: Any,
    ) -> str:
        """Add a call that nobody made, by default for one unit where it buys; returns its key."""
        call, buys = call or f"planted#{len(self.lines)}", op in ("order", "restock")
        key = f"planted-{len(self.lines)}" if buys else ""
        asked = {"order": None, "buyer": call, "key": key, "quantity": int(buys), **values}
        self.lines.append(Line(start, call, invocation(op, 1, asked)))
        last = ending(op, status, code, asked["order"], shown) | {"orders": orders, "told": told}
        self.lines.append(Line(end, call, last))
        return str(asked["key"])

    def write(self, folder: Path) -> RunFiles:
        """Write all files."""
        folder.mkdir(parents=True, exist_ok=True)
        files = RunFiles(folder)
        # An invocation before an answer of the same moment, as any recorder writes them.
        lines = sorted(self.lines, key=lambda line: (line.time, line.values["event"] != INVOKE))
        for parity, name in enumerate(("a.jsonl", "b.jsonl")):
            mine = (each.json(self.tick) for each in lines if len(each.call) % 2 == parity)
            (folder / name).write_text("".join(f"{each}\n" for each in mine))
        s.write(files.final, self._header(self.end, "confirmation"), [*LIFECYCLE, *self.rows])
        for number, (taken_at, rows) in enumerate(self.during):
            path = folder / f"during-{number:03}.snapshot"
            s.write(path, self._header(taken_at), [*LIFECYCLE, *rows])
        s.write(files.ledger, s.Header(0), self.ledger)
        s.write(files.deliveries, s.Header(0), self.deliveries)
        s.write(files.terms, s.Header(0), self.terms)
        return files

    def _header(self, taken_at: int, *follow_up: str) -> s.Header:
        return s.Header(taken_at * self.tick, follow_up, clock(taken_at))


def invocation(op: str, attempt: int, asked: dict[str, Any]) -> dict[str, Any]:
    """The first line of a call, of the first sale if it does not say which."""
    return {
        "event": INVOKE,
        "op": op,
        "client": asked["buyer"],
        "attempt": attempt,
        "sale": SALE,
        "item": ITEM,
        **asked,
    }


def ending(
    op: str, status: int, code: str, order: str | None, shown: dict[str, Any] | None
) -> dict[str, Any]:
    """The last line of a call."""
    event = classify(status, code, order, op=op)
    told = {"event": event, "status": status, "code": code, "order": order}
    return told | ({"shown": shown} if shown else {})
