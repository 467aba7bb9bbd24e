"""A proof on a terminal: what is going on, and what came out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shop.proof.controls import Control, Outcome
from shop.proof.proof import Plan, Progress, Result

STYLES = {"pass": "bold green", "fail": "bold red", "unknown": "bold yellow"}
WORDS = {
    "pass": "PROVED",
    "fail": "BROKEN",
    "unknown": "COULD NOT BE JUDGED",
}


def progress(plan: Plan, now: Progress) -> RenderableType:
    """The state of a running proof."""
    table = Table.grid(padding=(0, 2))
    when = f"opens in {-now.seconds:.0f} s" if now.seconds < 0 else f"{now.seconds:.1f} s"
    table.add_row(Text(now.phase, style="bold cyan"), when)
    if now.item is not None:
        reserved = now.item.held + now.item.confirmed
        table.add_row(
            ProgressBar(total=plan.stock or 1, completed=reserved, width=40),
            f"{reserved} of {plan.stock} reserved, {now.item.available} available",
        )
    if now.owed:
        table.add_row("", f"{now.owed} follow-ups open")
    return table


def result(console: Console, plan: Plan, came_out: Result, repeat: str) -> None:
    """The verdict as a table, and its figures."""
    outcome = came_out.outcome
    table = Table(expand=False, show_lines=False)
    table.add_column("")
    table.add_column("Property", no_wrap=True)
    table.add_column("Verdict", no_wrap=True)
    table.add_column("What was seen")
    for finding in came_out.verdict.properties if came_out.verdict else []:
        detail: RenderableType = Text(finding.detail)
        if finding.verdict != "pass" and finding.evidence:
            shown = [Text(f"· {line}", style="red") for line in finding.evidence[:3]]
            detail = Group(Text(finding.detail), *shown)
        style = STYLES[finding.verdict]
        table.add_row(finding.id, finding.name, Text(finding.verdict.upper(), style=style), detail)
    console.print(table)
    console.print(
        Panel(
            Group(*_summary(plan, came_out), Text(f"Again: {repeat}", style="dim")),
            title=Text(WORDS[outcome], style=STYLES[outcome]),
            title_align="left",
            border_style=STYLES[outcome],
            expand=False,
        )
    )


def controls(
    names: Sequence[str], outcomes: Sequence[Outcome], current: Control | None, now: Progress | None
) -> RenderableType:
    """The negative controls so far: what was off, what had to turn red, and what did."""
    table = Table(expand=False, title="Negative controls", title_justify="left")
    for heading in ("Switched off", "Must turn red", "Turned red", ""):
        table.add_column(heading)
    for each in outcomes:
        wanted = " or ".join(each.control.reddens) or "nothing"
        word, style = ("CAUGHT", "bold green") if each.caught else ("MISSED", "bold red")
        if not each.control.reddens:
            word = "PASSED" if each.caught else "BROKEN"
        table.add_row(
            each.control.off, wanted, ", ".join(each.red) or "nothing", Text(word, style=style)
        )
    if current is not None and now is not None:
        table.add_row(Text(current.off, style="dim"), "", "", Text(now.phase, style="cyan"))
    return Group(table, Text(f"{len(outcomes)} of {len(names)}", style="dim"))


def _summary(plan: Plan, came_out: Result) -> list[Text]:
    if came_out.verdict is None:
        return [Text(came_out.reason)]
    counts = came_out.verdict.counts
    oversold = counts["oversold"]
    sold = counts["held"] + counts["confirmed"]
    return [
        Text(
            f"{plan.crowd.buyers} buyers, {plan.stock} units, strategy {plan.strategy}: "
            f"{counts['orders']} orders, {sold} units reserved, {counts['available']} left, "
            f"{counts['sold_out']} told sold out."
        ),
        Text(
            f"OVERSOLD by {oversold} units." if oversold else "Oversold: 0.",
            style="bold red" if oversold else "green",
        ),
        Text(
            f"Answers by key: {counts['ok']} ok, {counts['fail']} refused, "
            f"{counts['info']} unknown. Sold in {came_out.seconds:.2f} s "
            f"({came_out.rate():.0f} accepted a second)."
        ),
    ]
