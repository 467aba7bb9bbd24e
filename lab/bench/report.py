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
from html import escape
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


def add_arguments(parser: ArgumentParser, *, seconds: float, rounds: int) -> None:
    """Add the options that all benchmarks have, with these defaults."""
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"of each sample ({seconds:g})"
    )
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


# The measures of the panels, in pixels.
WIDTH, BAR, GAP, LABEL, MARGIN = 860, 18, 8, 190, 28

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 19px; font-weight: 600 } .sub { fill: #57606a }
  .head { font-weight: 600 } .bar { fill: #b6bec9 } .ours { fill: #0969da }
  .limit { fill: #d0d7de } .bad { fill: #cf222e } .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .sub { fill: #8d96a0 } .bar { fill: #57606a } .ours { fill: #4493f8 }
    .limit { fill: #373e47 } .bad { fill: #f85149 } .page { fill: #0d1117 }
  }
"""


@dataclass(frozen=True)
class Panel:
    """One figure for all contenders.

    Attributes:
        title: the question.
        hint: unit, and which way is better.
        values: name and figure of each, in the order of the bars.
        show: the figure as text.
    """

    title: str
    hint: str
    values: list[tuple[str, float]]
    show: Callable[[float], str]


def draw(title: str, about: str, panels: Sequence[Panel], kinds: Mapping[str, str]) -> str:
    """Draw panels below each other; reads in light and in dark.

    Our own, because a few bars in one file do not need a library (`docs/dependencies.md`).

    Args:
        title: of the whole.
        about: a line below it.
        panels: what is shown.
        kinds: "ours", "limit" or "bad" for names that are to stand out.

    Returns:
        The SVG document.
    """
    parts = [
        f'<text class="title" x="{MARGIN}" y="40">{escape(title)}</text>',
        f'<text class="sub" x="{MARGIN}" y="62">{escape(about)}</text>',
    ]
    top = 96
    for panel in panels:
        drawn, height = _panel(panel, top, kinds)
        parts += drawn
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" role="img" aria-label="{escape(title)}">'
    )
    page = f'<rect class="page" width="{WIDTH}" height="{top}" rx="8"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", page, *parts, "</svg>", ""])


def _panel(panel: Panel, top: int, kinds: Mapping[str, str]) -> tuple[list[str], int]:
    hint = f'<tspan class="sub" dx="10" font-weight="400">{escape(panel.hint)}</tspan>'
    title = f"{escape(panel.title)}{hint}"
    parts = [f'<text class="head" x="{MARGIN}" y="{top}">{title}</text>']
    longest = max(value for _, value in panel.values) or 1.0
    room = WIDTH - LABEL - 2 * MARGIN - 80  # the figure is to the right of the bar
    for place, (name, value) in enumerate(panel.values):
        y = top + 14 + place * (BAR + GAP)
        kind = kinds.get(name, "bar")
        x, middle = MARGIN + LABEL, y + BAR - 5
        width = max(1.5, room * value / longest)
        parts += [
            f'<text x="{x - 10}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>',
            f'<text x="{x + width + 8:.1f}" y="{middle}">{escape(panel.show(value))}</text>',
        ]
    return parts, 14 + len(panel.values) * (BAR + GAP) + 36
