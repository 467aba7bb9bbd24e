"""A proof on a terminal: a line for each change while it runs, and what came out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.proof.control_run import Outcome
from lab.proof.progress import Progress
from lab.proof.result import Result
from loadtest.checker import Rate, Verdict
from loadtest.checker.properties.recovery import KINDS as RATES
from loadtest.checker.verdict import Aftermath
from loadtest.report import why_not
from loadtest.report.headline import meanings, wrapped
from loadtest.steps import RunPlan

STYLES = {"pass": "bold green", "fail": "bold red", "unknown": "bold yellow"}
EXAMPLES = 3
"""Violations shown of a property; the report has all."""


def result(console: Console, plan: RunPlan, came_out: Result) -> None:
    """Print the closing line, the properties, the counts and the command that repeats the run."""
    console.print()
    for line in wrapped(came_out.headline(plan.buyers), console.width):
        console.print(Text(line, style=STYLES[came_out.outcome]))
    for remark in _remarks(plan, came_out):
        console.print(remark)
    console.print()
    if came_out.verdict.properties:
        console.print(_properties(came_out.verdict))
        for evidence in _evidence(came_out.verdict):
            console.print(evidence)
        console.print()
        if plan.faults:
            console.print(faults(plan, came_out))
            console.print()
            for name, what in plan.left_out.items():
                console.print(Text(f"{name} was left out: it needs {what}.", style="yellow"))
        console.print(_counts(plan, came_out))
    if came_out.outcome != "pass":
        where = came_out.log or "deleted with the shop; --jsonl FOLDER keeps it"
        console.print(Text(f"The shop's log: {where}", style="dim"))
    console.print()
    # On one line, so that it can be copied.
    console.print(Text(f"Again: {plan.repeat}", style="dim"), soft_wrap=True)


def _table(**more: Any) -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), **more)


def _remarks(plan: RunPlan, came_out: Result) -> Iterator[Text]:
    """Yield what the closing line needs to be understood."""
    if came_out.reason:
        yield Text(came_out.reason, style="yellow")
    for done in came_out.rebuilt:
        yield Text(done, style="yellow")
    yield Text(f"{plan.title}. {_loop(plan, came_out)}.", style="dim")


def _properties(verdict: Verdict) -> RenderableType:
    table = _table()
    table.add_column("", no_wrap=True)
    table.add_column("Property", no_wrap=True)
    table.add_column("Verdict", no_wrap=True)
    table.add_column("What was seen")
    for finding in verdict.properties:
        word = Text(finding.verdict.upper(), style=STYLES[finding.verdict])
        table.add_row(finding.id, finding.name, word, Text(finding.detail))
    return Group(table, *(Text(line, style="dim") for line in why_not(verdict.not_judged)))


def _evidence(verdict: Verdict) -> Iterator[Text]:
    """Yield some of what broke each property, over the whole width."""
    for finding in verdict.properties:
        if finding.verdict != "pass" and finding.evidence:
            yield Text(f"{finding.id} {finding.name}", style="bold red")
            yield from (Text(f"· {line}", style="red") for line in finding.evidence[:EXAMPLES])


def _counts(plan: RunPlan, came_out: Result) -> RenderableType:
    """Return what was counted, and what each figure counts."""
    counts = came_out.verdict.counts
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for number, meaning in meanings(counts):
        table.add_row(f"{number:,}", meaning)
    lost = counts["lost"]
    if plan.bed or lost:
        style = "bold red" if lost else "green"
        table.add_row(Text(f"{lost:,}", style=style), Text("acknowledged orders lost", style=style))
    speed = f"{came_out.speed.meaning} " if came_out.speed else ""
    return Group(table, Text(f"{speed}{came_out.pace.capitalize()}.", style="dim"))


def controls(outcomes: Sequence[Outcome], seed: int) -> RenderableType:
    """The negative controls: what was off, what had to turn red, and what did; what to repeat."""
    table = _table(title="Negative controls", title_justify="left")
    for heading in ("Switched off", "Must turn red", "Turned red", ""):
        table.add_column(heading, no_wrap=not heading)
    for each in outcomes:
        wanted = " or ".join(each.control.reddens) or "nothing"
        word, style = ("CAUGHT", "bold green") if each.caught else ("MISSED", "bold red")
        if not each.control.reddens:
            word = "PASSED" if each.caught else "BROKEN"
        table.add_row(
            each.control.off, wanted, ", ".join(each.red) or "nothing", Text(word, style=style)
        )
    missed = [f"--control {each.control.name}" for each in outcomes if not each.caught]
    seen = f"{len(outcomes)} run, {len(outcomes) - len(missed)} as expected"
    again = f'Again: make prove ARGS="{" ".join(missed)} --seed {seed}"' if missed else ""
    return Group(table, Text(seen, style="dim"), again)


def faults(plan: RunPlan, came_out: Result) -> Table:
    """Which faults there were, how soon the shop sold again after each, and how well."""
    table = _table()
    table.add_column("Fault", no_wrap=True)
    # The units stand in the headings, for the sake of 80 columns.
    headings = ["Times", "First ok after (s)", *(f"{kind} once settled" for kind in RATES)]
    if plan.bed:
        headings[1:1] = ["Sold after loss (s)", "Failed meanwhile"]
    for heading in headings:
        # A word per line: at 80 columns rich would cut words instead.
        table.add_column("\n".join(heading.split()), justify="right", vertical="bottom")
    for name in plan.faults:
        numbers = [at for at, fault in enumerate(came_out.faults) if fault.fault == name]
        found = [came_out.aftermath(came_out.faults[at]) for at in numbers]
        judged = [each for each in found if each is not None]
        losses = _longest(came_out.after_loss[at] for at in numbers)
        table.add_row(
            name,
            str(len(numbers)) if numbers else Text("0", style="yellow"),
            *([losses, _failed(judged)] if plan.bed else []),
            _longest(each.recovery for each in judged),
            *(_worst(each.rates[kind] for each in judged) for kind in RATES),
        )
    return table


def _longest(waits: Iterable[float | None]) -> str:
    known = [wait for wait in waits if wait is not None]
    return f"{max(known):.2f}" if known else "-"


def _failed(aftermaths: Sequence[Aftermath]) -> str:
    """Return how many requests that began during these faults were not served."""
    rates = [rate for each in aftermaths for rate in each.during.values()]
    if not rates:
        return "-"
    return f"{sum(rate.bad for rate in rates)}/{sum(rate.answers for rate in rates)}"


def _worst(rates: Iterable[Rate]) -> str:
    """Return the lowest share of good answers."""
    known = [rate for rate in rates if rate.answers]
    return str(max(known, key=lambda rate: rate.bad / rate.answers)) if known else "-"


def _loop(plan: RunPlan, came_out: Result) -> str:
    if not plan.arrivals:
        return "Closed loop: buyers wait for their answers before they ask again"
    came = f"Open loop: {plan.arrivals:g} buyers came per second"
    if came_out.late is None:
        return f"{came}; how many of them in time, Locust did not say"
    if not came_out.late and not came_out.unstarted:
        return f"{came}, all of them in time"
    return (
        f"{came}; {came_out.late} began late and {came_out.unstarted} not at all, for want of "
        "users to play them: take more --buyers"
    )


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
    if now.owed > 0:
        parts.append(f"{now.owed} open")
    return "; ".join(parts)
