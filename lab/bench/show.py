"""The benchmark's table, for terminals and documents."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from lab.bench.run import Measured, ratios

COLUMNS = ("Row", "Connections", "Right answers/s", "p50 ms", "p99 ms", "Errors", "Oversold", "MB")


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
    )


def table(measured: Sequence[Measured]) -> Table:
    """Return the table for a terminal."""
    found = Table(title="Medians over all rounds")
    for number, name in enumerate(COLUMNS):
        found.add_column(name, justify="right" if number else "left")
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
