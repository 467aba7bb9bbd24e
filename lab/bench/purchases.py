"""The request rates of purchases: how the result of `manage.py bench` is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lab.bench.report import Benchmark, Document
from lab.bench.rows import RATIOS
from lab.bench.run import Measured
from loadtest.chart import Panel

HEADS = (
    *("Row", "Conns", "Per s", "p50 ms", "p99 ms", "Err", "Over", "MB"),
    *("Web µs", "DB µs", "Redis µs"),
)
"""Right answers per second; errors; units oversold; CPU time of each server per right answer."""


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the rows."""
    yield HEADS
    for row in document["rows"]:
        yield (
            row["name"],
            str(row["concurrency"]),
            f"{row['rps']:,.0f}",
            f"{row['p50_ms']:,.1f}",
            f"{row['p99_ms']:,.1f}",
            str(row["errors"]),
            f"**{row['oversold']}**" if row["oversold"] else "0",
            f"{row['worker_mb']:.0f}",
            *(f"{row[name]:,.0f}" for name in ("web_us", "database_us", "redis_us")),
        )


def ratios(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the compared rates, at the concurrency that all rows have."""
    rates: dict[str, float] = {}
    by_concurrency: dict[int, dict[str, float]] = defaultdict(dict)
    for each in measured:
        by_concurrency[each.row.concurrency][each.row.name] = each.median("rps")
    for concurrency, found in by_concurrency.items():
        for name, other in RATIOS:
            if found.get(other) and name in found:
                suffix = "" if concurrency == measured[0].row.concurrency else f"@{concurrency}"
                rates[f"{name}/{other}{suffix}"] = round(found[name] / found[other], 3)
    return rates


def _notes(document: Document) -> Iterator[str]:
    if document["ratios"]:
        found = document["ratios"].items()
        yield "Ratios: " + ", ".join(f"{name} {value:.2f}" for name, value in found) + "."


def _name(row: Mapping[str, object]) -> str:
    return f"{row['name']}, {row['concurrency']}"


def _panels(document: Document) -> list[Panel]:
    rates = [(_name(row), float(row["rps"])) for row in document["rows"]]
    slow = [(_name(row), float(row["p99_ms"])) for row in document["rows"]]
    return [
        Panel("Right answers", "per second; longer is better", rates, "{:,.0f}".format),
        Panel("Slowest of 100 (p99)", "ms; shorter is better", slow, "{:,.0f} ms".format),
    ]


def _kinds(document: Document) -> dict[str, str]:
    kinds = {"combining": "ours", "noop": "limit", "noop_api": "limit"}
    return {
        _name(row): "bad" if row["oversold"] else kinds.get(row["name"], "bar")
        for row in document["rows"]
    }


PURCHASES = Benchmark("bench", "Purchases per second", table, _panels, _kinds, _notes)
