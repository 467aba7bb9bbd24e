"""The benchmark's table, for terminals and documents."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich import box
from rich.console import RenderableType
from rich.table import Table

from lab.bench.observed import PLAIN
from lab.bench.run import Measured, ratios
from lab.bench.sold import Sold

COLUMNS = (
    *("Row", "Conns", "Per s", "p50 ms", "p99 ms", "Err", "Over", "MB"),
    *("Web µs", "DB µs", "Redis µs"),
)
"""Right answers per second; errors; units oversold; CPU time of each server per right answer."""


def _table() -> Table:
    """Return an empty table that is as narrow as its figures."""
    return Table(
        title="Medians over all rounds",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
        show_edge=False,
    )


def cells(each: Measured) -> tuple[str, ...]:
    """Return the cells of a row."""
    figures = each.to_json()
    return (
        figures["name"],
        str(figures["concurrency"]),
        f"{figures['rps']:,.0f}",
        f"{figures['p50_ms']:,.1f}",
        f"{figures['p99_ms']:,.1f}",
        str(figures["errors"]),
        str(figures["oversold"]),
        f"{figures['worker_mb']:.0f}",
        *(f"{figures[name]:,.0f}" for name in ("web_us", "database_us", "redis_us")),
    )


def table(measured: Sequence[Measured]) -> Table:
    """Return the table for a terminal."""
    found = _table()
    for number, name in enumerate(COLUMNS):
        found.add_column(name, justify="right" if number else "left", no_wrap=True)
    for each in measured:
        style = "red" if each.to_json()["oversold"] else None
        found.add_row(*cells(each), style=style)
    return found


def markdown(measured: Sequence[Measured]) -> str:
    """Return the table and the ratios in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cells(each)) + " |" for each in measured]
    lines += ["", "| Ratio | |", "|---|---|"]
    lines += [f"| {name} | {value:.2f} |" for name, value in ratios(measured).items()]
    return "\n".join(lines) + "\n"


def from_markdown(lines: Iterable[str]) -> Iterator[RenderableType]:
    """Yield Markdown's tables as narrow as a terminal needs them, and what stands between them."""
    for is_table, group in groupby(lines, lambda line: line.startswith("|")):
        if not is_table:
            yield "\n".join(group)
            continue
        heads, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in group)
        table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
        for number, head in enumerate(heads):
            words = "\n".join(head.split()) if number else head
            table.add_column(words, justify="right" if number else "left", vertical="bottom")
        for row in rows:
            table.add_row(*row)
        yield table


def observed(sold: Mapping[str, Sequence[Sold]]) -> Table:
    """Return what each way of watching the shop costs; ratios are medians of the rounds' ratios."""
    found = _table()
    found.add_column("Watched by", no_wrap=True)
    for name in ("Per s", "Ratio", "CPU µs", "Ratio"):
        found.add_column(name, justify="right", no_wrap=True)
    for name, samples in sold.items():
        pairs = list(zip(samples, sold[PLAIN], strict=True))
        found.add_row(
            name,
            f"{statistics.median(each.rate for each in samples):,.0f}",
            f"{statistics.median(each.rate / plain.rate for each, plain in pairs):.3f}",
            f"{statistics.median(each.cpu.total for each in samples):,.0f}",
            f"{statistics.median(each.cpu.total / plain.cpu.total for each, plain in pairs):.3f}",
        )
    return found
