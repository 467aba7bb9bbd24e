"""A proof's progress: live on a terminal, in lines for a file or a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from lab.proof import show
from lab.proof.plan import Plan
from lab.proof.progress import Progress

EVERY = 10.0
"""Seconds until a line is printed although nothing has changed."""


def say(console: Console, text: str) -> None:
    """Print a line with the time of day."""
    line = f"{time.strftime('%H:%M:%S')} {text}"
    console.print(line, soft_wrap=True, highlight=False, markup=False)


@contextmanager
def step(console: Console, doing: str, done: str) -> Iterator[None]:
    """Show a step while it runs: as a spinner on a terminal, as two lines elsewhere."""
    if console.is_terminal:
        with console.status(f"{doing} …"):
            yield
        return
    say(console, f"{doing} …")
    start = time.monotonic()
    yield
    say(console, f"{done} after {time.monotonic() - start:.1f} s")


@contextmanager
def watching(console: Console, plan: Plan, of: str = "") -> Iterator[Callable[[Progress], None]]:
    """Show a proof while it runs: as a table on a terminal, in lines elsewhere.

    Args:
        console: where.
        plan: of the proof.
        of: which of several proofs it is; empty for the only one.

    Yields:
        A function that takes the proof's progress.
    """
    if not console.is_terminal:
        yield Lines(console, plan, of)
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield lambda now: live.update(show.progress(plan, now))


class Lines:
    """Prints a line when the phase or the fault changes, and now and then in between.

    Args:
        of: which of several proofs it is; empty for the only one.
    """

    def __init__(self, console: Console, plan: Plan, of: str = "") -> None:
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


def line(plan: Plan, now: Progress) -> str:
    """Return the state of a running proof in one line."""
    parts = [f"{now.phase} {max(now.seconds, 0.0):.0f} s"]
    if plan.faults:
        parts.append(f"fault: {now.fault or 'none'}, {now.injected} so far")
    if now.calls.get("invoke"):
        calls = now.calls
        parts.append(f"{calls['ok']} ok, {calls['fail']} refused, {calls['info']} unknown")
    if now.owed > 0:
        parts.append(f"{now.owed} open")
    return "; ".join(parts)
