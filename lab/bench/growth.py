"""How the cost of a purchase grows: with connections, items and units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.bench.report import Benchmark, Document
from lab.bench.rows import Row

BASE: Mapping[str, Any] = {"concurrency": 128, "items": 1, "units": 1}
"""The case that the others are compared with; each of them changes one of these."""

GROWN: Mapping[str, tuple[int, ...]] = {
    "concurrency": (16, 128, 1000, 5000),
    "items": (10, 1000),
    "units": (10,),
}


def rows() -> list[Row]:
    """Return a row for each case."""
    cases = ({**BASE, name: value} for name, values in GROWN.items() for value in values)
    return [Row("combining", strategy="combining", **case) for case in cases]


def cost(row: Mapping[str, Any]) -> float:
    """Return the microseconds of CPU time of all servers per accepted purchase."""
    return float(row["web_us"] + row["database_us"] + row["redis_us"])


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the cases."""
    yield (
        *("Conns", "Items", "Units", "Batch", "Per s", "Web µs", "DB µs", "Redis µs"),
        *("Cost µs", "Times", "Over, lost"),
    )
    [base] = [row for row in document["rows"] if row.items() >= BASE.items()]
    for row in document["rows"]:
        yield (
            *(f"{row[name]:,}" for name in BASE),
            f"{row['batch']:.0f}" if row.get("batch") else "",
            f"{row['rps']:,.0f}",
            *(f"{row[name]:,.0f}" for name in ("web_us", "database_us", "redis_us")),
            f"{cost(row):,.0f}",
            f"{cost(row) / cost(base):.2f}",
            f"{row['oversold']}, {row['lost']}",
        )


def _notes(document: Document) -> Iterator[str]:
    yield (
        "Cost: CPU time of web, PostgreSQL and Redis per accepted purchase. Times: the cost "
        "divided by that of 128 connections, one item and one unit."
    )


GROWTH = Benchmark("bench-growth", table, _notes)
