"""What all benchmarks share: rounds of samples, and what they write: a table on the screen, JSON, a
chart, and a part of docs/bench.md."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from lab import environment

Document = Mapping[str, Any]
"""A result: `rows`, `machine`, `command`, `date`, and what else the benchmark has."""

PAGE = "bench.md"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How a benchmark's result is shown.

    Attributes:
        name: of its files in docs/, and of its part of the page.
        table: yields the headings, then the rows.
        notes: sentences below the table.
        title: of its chart.
        chart: draws the result as one SVG; None: the page has the table alone.
    """

    name: str
    table: Callable[[Document], Iterator[Sequence[str]]]
    notes: Callable[[Document], Iterator[str]]
    title: str = ""
    chart: Callable[[Document], str] | None = None

    def part(self, document: Document) -> str:
        """Return the result in Markdown, as docs/bench.md contains it between two marks."""
        heads, *rows = self.table(document)
        lines = [f"<!-- {self.name} -->", "```", document["command"], "```", ""]
        lines += [f"{document['date']}, {about(document)}.", ""]
        if self.chart:
            lines += [f"![{self.title}]({self.name}.svg)", ""]
        lines += [f"| {' | '.join(heads)} |"]
        lines += ["|---" + "|--:" * (len(heads) - 1) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        notes = [f"- {note}" for note in self.notes(document)]
        return "\n".join([*lines, "", *notes, *([""] if notes else []), f"<!-- /{self.name} -->"])

    def screen(self, document: Document) -> Table:
        """Return the table as narrow as a terminal needs it."""
        heads, *rows = self.table(document)
        table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
        for number, head in enumerate(heads):
            words = "\n".join(head.split()) if number else head
            table.add_column(
                words, justify="right" if number else "left", vertical="bottom", no_wrap=True
            )
        for row in rows:
            table.add_row(*(cell.replace("**", "").replace("`", "") for cell in row))
        return table


def add_arguments(parser: ArgumentParser, *, seconds: str, rounds: int) -> None:
    """Add the options that all benchmarks have."""
    parser.add_argument("--seconds", type=float, help=f"of each sample ({seconds})")
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"samples of each case ({rounds})"
    )
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write JSON, to stdout by default"
    )
    parser.add_argument(
        "--docs", type=Path, metavar="FOLDER", help="write JSON, chart and page there"
    )
    parser.add_argument(
        "--redraw", action="store_true", help="measure nothing: use the JSON of --docs"
    )


def finish(
    benchmark: Benchmark, options: Mapping[str, Any], measure: Callable[[], dict[str, Any]]
) -> None:
    """Measure, or read what was measured; print the table and write the files asked for."""
    folder, file = options["docs"], options["json"]
    if options["redraw"]:
        path = (folder or environment.PROJECT / "docs") / f"{benchmark.name}.json"
        document = json.loads(path.read_text(encoding="utf-8"))
    else:
        document = {"command": _command(), "date": f"{datetime.now(UTC):%Y-%m-%d}", **measure()}
    console = Console(stderr=file == "-", highlight=False)
    console.print(benchmark.screen(document))
    for note in benchmark.notes(document):
        console.print(f"  {note}", soft_wrap=True)
    text = json.dumps(document, indent=1) + "\n"
    if file == "-":
        print(text, end="")
    elif file:
        Path(file).write_text(text, encoding="utf-8")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{benchmark.name}.json").write_text(text, encoding="utf-8")
        publish(benchmark, document, folder)


def publish(benchmark: Benchmark, document: Document, folder: Path) -> None:
    """Write the chart, and the benchmark's part of the page if the folder has that page."""
    page = folder / PAGE
    if benchmark.chart:
        (folder / f"{benchmark.name}.svg").write_text(benchmark.chart(document), encoding="utf-8")
    if page.exists():
        marks = re.compile(rf"<!-- {benchmark.name} -->.*<!-- /{benchmark.name} -->", re.DOTALL)
        text = page.read_text(encoding="utf-8")
        page.write_text(marks.sub(lambda _: benchmark.part(document), text), encoding="utf-8")


def machine(**servers: str) -> dict[str, Any]:
    """Describe the machine and the servers of a measurement."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **servers,
    }


def about(document: Document) -> str:
    """Say on which machine and servers the result was measured."""
    facts = document["machine"]
    servers = " and ".join(facts[name] for name in ("database", "redis") if name in facts)
    return f"{facts['cores']} cores shared by the load and {servers}; Python {facts['python']}"


def _command() -> str:
    """Return the command that repeats this measurement."""
    name, *arguments = sys.argv[1:] or [""]
    return f'make {name.replace("_", "-")} ARGS="{shlex.join(arguments)}"'


Case = TypeVar("Case", bound=Hashable)
Sample = TypeVar("Sample")


def interleaved(
    cases: Sequence[Case],
    rounds: int,
    sample: Callable[[Case], Sample],
    tell: Callable[[str], None],
) -> dict[Case, list[Sample]]:
    """Measure every case once per round; return the samples of each.

    Each round begins with another case, so that none always follows the same one.

    Args:
        cases: what is compared; `str` names one in the progress messages.
        rounds: samples per case.
        sample: measures a case once.
        tell: called with a progress message before each sample.
    """
    found: dict[Case, list[Sample]] = {case: [] for case in cases}
    for number in range(rounds):
        first = number % len(cases)
        for case in (*cases[first:], *cases[:first]):
            tell(f"Round {number + 1} of {rounds}: {case} …")
            found[case].append(sample(case))
    return found
