"""How the cost of a purchase grows: with connections, items and units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.bench.report import Benchmark, Document
from lab.bench.rows import Row

BASE = {"concurrency": 128, "items": 1, "units": 1}
"""Each axis changes one of these."""

Case = Mapping[str, Any]
"""A row as `Measured.to_json` writes it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows.

    Attributes:
        name: of the figure in a row.
        unit: of a value.
        values: from the smallest case to the largest.
    """

    name: str
    unit: str
    values: tuple[int, ...]

    def case(self, value: int) -> str:
        """Return the name of a case."""
        return f"{value:,} {self.unit}{'' if value == 1 else 's'}"


AXES = (
    Axis("concurrency", "connection", (16, 128, 1000, 5000)),
    Axis("items", "item", (1, 10, 1000)),
    Axis("units", "unit", (1, 10)),
)


def rows() -> list[Row]:
    """Return a row for each case of each axis, the common one once."""
    cases = ({**BASE, axis.name: value} for axis in AXES for value in axis.values)
    return list(dict.fromkeys(_row(**case) for case in cases))


def _row(concurrency: int, items: int, units: int) -> Row:
    return Row("combining", concurrency, strategy="combining", items=items, units=units)


def cases(document: Document) -> Iterator[tuple[Axis, list[tuple[int, Case]]]]:
    """Yield each axis with its measured cases, the smallest first."""
    rows: list[Case] = document["rows"]
    for axis in AXES:
        fixed = {name: value for name, value in BASE.items() if name != axis.name}
        along = [row for row in rows if all(row[name] == fixed[name] for name in fixed)]
        yield axis, sorted(((row[axis.name], row) for row in along), key=lambda each: each[0])


def cost(row: Case) -> float:
    """Return the microseconds of CPU time of all servers per accepted purchase."""
    return float(row["web_us"] + row["database_us"] + row["redis_us"])


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the cases, axis by axis."""
    yield "Case", "Batch", "Per s", "Web µs", "DB µs", "Redis µs", "Cost µs", "Times", "Over, lost"
    for axis, measured in cases(document):
        smallest = cost(measured[0][1])
        for value, row in measured:
            yield (
                axis.case(value),
                f"{row['batch']:.0f}" if row.get("batch") else "",
                f"{row['rps']:,.0f}",
                *(f"{row[name]:,.0f}" for name in ("web_us", "database_us", "redis_us")),
                f"{cost(row):,.0f}",
                f"{cost(row) / smallest:.2f}",
                f"{row['oversold']}, {row['lost']}",
            )


def _notes(document: Document) -> Iterator[str]:
    yield (
        "Cost: CPU time of web, PostgreSQL and Redis per accepted purchase. "
        "Times: the cost divided by that of the axis's first case."
    )


GROWTH = Benchmark("bench-growth", table, _notes)
