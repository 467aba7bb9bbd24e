"""A proof on a terminal: a line for each change while it runs, and what came out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.proof.control_run import Outcome
from lab.proof.progress import Progress
from lab.proof.result import Result
from loadtest.checker.report import Description, document
from loadtest.checker.report.terminal import FAINT, lines
from loadtest.files import RunFiles
from loadtest.run_plan import RunPlan

STYLES = {
    "pass": "bold green",
    "fail": "bold red",
    "unknown": "bold yellow",
    FAINT: "dim",
    "": "",
}


def result(console: Console, plan: RunPlan, came_out: Result) -> None:
    """Print the verdict, and where the shop's log is if it is no pass."""
    shown = came_out.document or document(
        Description(plan.title, plan.repeat, reason=came_out.reason, buyers=plan.buyers),
        came_out.verdict,
        None,
        RunFiles(Path()),
    )
    console.print()
    for line in lines(shown, console.width):
        # A command stays on one line, so that it can be copied.
        console.print(Text(line.text, style=STYLES[line.style]), soft_wrap=True)
    if came_out.outcome != "pass":
        where = came_out.log or "deleted with the shop; --jsonl FOLDER keeps it"
        console.print(Text(f"The shop's log: {where}", style="dim"))


def _table(**more: Any) -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), **more)


def controls(outcomes: Sequence[Outcome], seed: int) -> RenderableType:
    """The negative controls: what was off, what had to turn red, and what did; what to repeat."""
    table = _table(title="Negative controls", title_justify="left")
    for heading in ("Switched off", "Must turn red", "Turned red", ""):
        table.add_column(heading, no_wrap=not heading)
    for outcome in outcomes:
        wanted = " or ".join(outcome.control.reddens) or "nothing"
        word, style = ("CAUGHT", "bold green") if outcome.caught else ("MISSED", "bold red")
        if not outcome.control.reddens:
            word = "PASSED" if outcome.caught else "BROKEN"
        table.add_row(
            outcome.control.off,
            wanted,
            ", ".join(outcome.red) or "nothing",
            Text(word, style=style),
        )
    missed = [f"--control {outcome.control.name}" for outcome in outcomes if not outcome.caught]
    seen = f"{len(outcomes)} run, {len(outcomes) - len(missed)} as expected"
    again = f'Again: make prove ARGS="{" ".join(missed)} --seed {seed}"' if missed else ""
    return Group(table, Text(seen, style="dim"), again)


EVERY = 10.0
"""Seconds until a line is printed although nothing has changed."""


def say(console: Console, text: str) -> None:
    """Print a line with the time of day."""
    line = f"{time.strftime('%H:%M:%S')} {text}"
    console.print(line, soft_wrap=True, highlight=False, markup=False)


@contextmanager
def step(console: Console, doing: str, done: str) -> Iterator[None]:
    """Say that a step begins, and how long it took."""
    say(console, f"{doing} …")
    start = time.monotonic()
    yield
    say(console, f"{done} after {time.monotonic() - start:.1f} s")


class Lines:
    """Prints a line when the phase or the fault changes, and now and then in between.

    Args:
        of: which of several proofs it is; empty for the only one.
    """

    def __init__(self, console: Console, plan: RunPlan, of: str = "") -> None:
        self._console, self._plan = console, plan
        self._of = f"{of}: " if of else ""
        self._last: tuple[str, str, int] | None = None
        self._due = 0.0

    def __call__(self, now: Progress) -> None:
        """Print the state of a running proof, if it is worth a line."""
        state = (now.phase, now.fault, now.injected)
        if state == self._last and time.monotonic() < self._due:
            return
        self._last, self._due = state, time.monotonic() + EVERY
        say(self._console, f"{self._of}{line(self._plan, now)}")


def line(plan: RunPlan, now: Progress) -> str:
    """Return the state of a running proof in one line."""
    parts = [f"{now.phase} {max(now.seconds, 0.0):.0f} s"]
    if plan.faults:
        parts.append(f"fault: {now.fault or 'none'}, {now.injected} so far")
    if now.pending > 0:
        parts.append(f"{now.pending} open")
    return "; ".join(parts)
