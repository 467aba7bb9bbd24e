"""How the cost of a purchase grows: with connections, items, units, and what is in the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.bench.rows import Row, Server
from lab.bench.run import Measured
from loadtest.chart import Panel, draw

BASE = {"concurrency": 128, "items": 1, "units": 1, "reservations": 0}
"""Each axis changes one of these."""

LIMIT = 1.3
"""A case whose cost is more than this times the smallest case's stands out."""

Case = Mapping[str, Any]
"""A row as :meth:`Measured.to_json` writes it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows.

    Attributes:
        name: of the figure in a row.
        title: in tables and charts.
        unit: of a value.
        values: from the smallest case to the largest.
    """

    name: str
    title: str
    unit: str
    values: tuple[int, ...]

    def case(self, value: int) -> str:
        """Return the name of a case."""
        return f"{value:,} {self.unit}{'' if value == 1 else 's'}"


def axes(reservations: int) -> tuple[Axis, ...]:
    """Return what grows; the database up to so many reservations."""
    return (
        Axis("concurrency", "Connections", "connection", (16, 128, 1000, 5000)),
        Axis("items", "Items, bought evenly", "item", (1, 10, 1000)),
        Axis("units", "Units per purchase", "unit", (1, 10)),
        Axis("reservations", "Reservations in the database", "reservation", (0, reservations)),
    )


def rows(reservations: int) -> list[Row]:
    """Return a row for each case of each axis, the common one once."""
    cases = ({**BASE, axis.name: value} for axis in axes(reservations) for value in axis.values)
    return list(dict.fromkeys(_row(**case) for case in cases))


def _row(concurrency: int, items: int, units: int, reservations: int) -> Row:
    server = Server(reservations=reservations)
    return Row("combining", concurrency, server, "combining", items=items, units=units)


def document(measured: Sequence[Measured], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result as JSON."""
    return {"rows": [each.to_json() for each in measured], "machine": machine}


def cases(found: Mapping[str, Any]) -> Iterator[tuple[Axis, list[tuple[int, Case]]]]:
    """Yield each axis with its measured cases, the smallest first."""
    rows: list[Case] = found["rows"]
    for axis in axes(max(row["reservations"] for row in rows)):
        fixed = {name: value for name, value in BASE.items() if name != axis.name}
        along = [row for row in rows if all(row[name] == fixed[name] for name in fixed)]
        yield axis, sorted(((row[axis.name], row) for row in along), key=lambda each: each[0])


def cost(row: Case) -> float:
    """Return the microseconds of CPU time of all servers per accepted purchase."""
    return float(row["web_us"] + row["database_us"] + row["redis_us"])


def markdown(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table."""
    yield "| | Per s | Web µs | DB µs | Redis µs | Cost µs | against the smallest | Over, lost |"
    yield "|---|---|---|---|---|---|---|---|"
    for axis, measured in cases(found):
        smallest = cost(measured[0][1])
        for value, row in measured:
            times = f"{cost(row) / smallest:.2f}"
            parts = " | ".join(
                f"{row[name]:,.0f}" for name in ("web_us", "database_us", "redis_us")
            )
            yield (
                f"| {axis.case(value)} | {row['rps']:,.0f} | {parts} | {cost(row):,.0f} "
                f"| {times} | {row['oversold']}, {row['lost']} |"
            )


def chart(found: Mapping[str, Any]) -> str:
    """Draw the cost of each case, and the rate."""
    panels, kinds = [], {}
    for axis, measured in cases(found):
        smallest = cost(measured[0][1])
        values = []
        for value, row in measured:
            name = axis.case(value)
            values.append((name, cost(row)))
            kinds[name] = "bad" if cost(row) > LIMIT * smallest else "ours"
        hint = "µs of CPU time per purchase; shorter is better"
        panels.append(Panel(axis.title, hint, values, lambda each: f"{each:,.0f} µs"))
    about = "Web, PostgreSQL and Redis together. Red: more than 1.3 times the smallest case."
    return draw("How the cost of a purchase grows", about, panels, kinds)
