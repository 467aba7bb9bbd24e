"""A proof on a terminal: what is going on, and what came out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lab.proof.controls import Control, Outcome
from lab.proof.dashboard import SIGNS
from lab.proof.plan import Plan
from lab.proof.progress import Progress
from lab.proof.result import Result
from loadtest.checker.properties.recovery import KINDS as RATES
from loadtest.checker.snapshot import Item
from loadtest.faults import Injected

STYLES = {"pass": "bold green", "fail": "bold red", "unknown": "bold yellow"}
WORDS = {
    "pass": "PROVED",
    "fail": "BROKEN",
    "unknown": "COULD NOT BE JUDGED",
}


def progress(plan: Plan, now: Progress) -> RenderableType:
    """The state of a running proof."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True, min_width=7)
    table.add_column(no_wrap=True)
    table.add_row("now", _phase(plan, now))
    if now.item is not None:
        table.add_row("stock", _stock(now.item))
    if now.calls.get("invoke"):
        table.add_row("answers", _answers(now))
    if plan.faults:
        table.add_row("fault", _fault(now))
    return Panel(
        table,
        title=f"{plan.strategy}, {plan.profile.buyers} buyers ({plan.profile.mix})",
        subtitle=f"seed {plan.profile.seed}",
        title_align="left",
        subtitle_align="right",
        border_style="red" if now.fault else "cyan",
        width=78,
    )


def _phase(plan: Plan, now: Progress) -> RenderableType:
    text = Text(now.phase, style="bold cyan")
    if now.seconds < 0:
        text.append(f", opens in {-now.seconds:.0f} s", style="none")
    elif plan.about_seconds and now.phase == "selling":
        text.append(f" {now.seconds:.0f} of about {plan.about_seconds:.0f} s", style="none")
    else:
        text.append(f" {now.seconds:.1f} s", style="none")
    if now.restocked:
        text.append(f", restocked {now.restocked} times", style="none")
    if now.owed > 0:
        text.append(f", {now.owed} open", style="none")
    return text


def _stock(item: Item) -> RenderableType:
    sold = item.held + item.confirmed
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=item.total or 1, completed=sold, width=20),
        Text.assemble(
            (f"{item.confirmed:,}", "green"),
            " paid ",
            (f"{item.held:,}", "yellow"),
            " held ",
            (f"{item.available:,}", "bold"),
            f" left of {item.total:,}",
        ),
    )
    return bar


def _answers(now: Progress) -> Text:
    return Text.assemble(
        (f"{now.calls['ok']:,}", "green"),
        " ok ",
        (f"{now.calls['fail']:,}", "yellow"),
        " refused ",
        (f"{now.calls['info']:,}", "magenta"),
        f" unknown, {now.rate:,.0f} per second",
    )


def _fault(now: Progress) -> Text:
    so_far = f"{now.injected} so far"
    if now.fault:
        return Text.assemble((f"⚡ {now.fault}", "bold red"), (f"  {so_far}", "dim"))
    return Text.assemble(("none now", "green"), (f"  {so_far}", "dim"))


def result(console: Console, plan: Plan, came_out: Result) -> None:
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
    if plan.faults:
        console.print(_faults(plan, came_out))
    console.print(
        Panel(
            Group(*_summary(plan, came_out)),
            title=Text(WORDS[outcome], style=STYLES[outcome]),
            title_align="left",
            border_style=STYLES[outcome],
            expand=False,
        )
    )
    # Outside the panel and on one line, so that it can be copied.
    console.print(Text(f"Again: {plan.repeat}", style="dim"), soft_wrap=True)


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
    seen = sum(each.caught for each in outcomes)
    return Group(
        table, Text(f"{len(outcomes)} of {len(names)} run, {seen} as expected", style="dim")
    )


def _faults(plan: Plan, came_out: Result) -> Table:
    """Which faults there were, how soon the shop sold again after each, and how well."""
    table = Table(expand=False)
    table.add_column("Fault", no_wrap=True)
    headings = ["Times", "First ok after", *(f"{kind} from 3 s" for kind in RATES)]
    if plan.bed:
        headings[1:1] = ["Sold after the loss", "Failed meanwhile"]
    if came_out.on_dashboard:
        headings.append("On the dashboard after")
    for heading in headings:
        table.add_column(heading, justify="right")
    figures = zip(came_out.faults, came_out.recoveries, came_out.after_loss, strict=True)
    found: dict[str, list[tuple[Injected, float | None, float | None]]] = {}
    for row in figures:
        found.setdefault(row[0].fault, []).append(row)
    for name in plan.faults:
        times = found.get(name, [])
        faults = [fault for fault, *_ in times]
        of_bed = [_longest(loss for *_, loss in times), _failed(came_out, faults)]
        table.add_row(
            name,
            str(len(times)) if times else Text("0", style="yellow"),
            *(of_bed if plan.bed else []),
            _longest(wait for _, wait, _ in times),
            *(_worst(came_out, kind, faults) for kind in RATES),
            *_on_dashboard(came_out, name),
        )
    for name, what in plan.left_out.items():
        left_out = Text(f"{name} (left out: needs {what})", style="yellow")
        table.add_row(left_out, "0", *("-" for _ in table.columns[2:]))
    return table


def _on_dashboard(came_out: Result, name: str) -> list[RenderableType]:
    """Return the cell that tells how soon the dashboard showed this fault, if there is one."""
    if not came_out.on_dashboard:
        return []
    shown = [
        seconds
        for fault, seconds in zip(came_out.faults, came_out.on_dashboard, strict=True)
        if fault.fault == name
    ]
    if not shown:
        return ["-"]
    known = [seconds for seconds in shown if seconds is not None]
    if len(known) < len(shown):
        return [Text("not seen", style="yellow") if name in SIGNS else "needs no sign"]
    return [f"{max(known):.1f} s"]


def _longest(waits: Iterable[float | None]) -> str:
    known = [wait for wait in waits if wait is not None]
    return f"{max(known):.2f} s" if known else "-"


def _failed(came_out: Result, faults: Sequence[Injected]) -> str:
    """Return how many requests that began during these faults were not served."""
    during = [came_out.rates(fault, during=True) for fault in faults]
    rates = [rate for each in during for rate in each.values()]
    if not rates:
        return "-"
    return f"{sum(rate.bad for rate in rates)} of {sum(rate.answers for rate in rates)}"


def _worst(came_out: Result, kind: str, faults: Sequence[Injected]) -> str:
    """Return the lowest share of good answers after these faults."""
    rates = [rates[kind] for fault in faults if (rates := came_out.rates(fault))]
    known = [rate for rate in rates if rate.answers]
    return str(max(known, key=lambda rate: rate.bad / rate.answers)) if known else "-"


def _summary(plan: Plan, came_out: Result) -> list[Text]:
    if came_out.verdict is None:
        return [Text(came_out.reason), *_problems(came_out)]
    counts = came_out.verdict.counts
    oversold = counts["oversold"]
    sold = counts["held"] + counts["confirmed"]
    reason = [Text(came_out.reason, style="yellow")] if came_out.reason else []
    return [
        *reason,
        Text(
            f"{plan.profile.buyers} buyers, {plan.stock} units, strategy {plan.strategy}: "
            f"{counts['orders']} orders, {sold} units reserved, {counts['available']} left, "
            f"{counts['sold_out']} told sold out."
        ),
        Text(
            f"OVERSOLD by {oversold} units." if oversold else "Oversold: 0.",
            style="bold red" if oversold else "green",
        ),
        *_lost(plan, counts["lost"]),
        Text(
            f"Answers by key: {counts['ok']} ok, {counts['fail']} refused, "
            f"{counts['info']} unknown. {came_out.pace()}"
        ),
        Text(f"{_loop(plan, came_out)}.", style="dim"),
        *_problems(came_out),
    ]


def _lost(plan: Plan, lost: int) -> list[Text]:
    if not plan.bed and not lost:
        return []
    style = "bold red" if lost else "green"
    return [Text(f"Acknowledged orders lost: {lost}.", style=style)]


def _problems(came_out: Result) -> list[Text]:
    """What the shop's log says, and where it is."""
    if not came_out.problems:
        return []
    where = came_out.log or "deleted with the shop; --jsonl FOLDER keeps these errors"
    return [
        Text("The shop logged errors:", style="red"),
        *(Text(f"· {line}", style="red") for line in came_out.problems),
        Text(f"Its log: {where}", style="dim"),
    ]


def _loop(plan: Plan, came_out: Result) -> str:
    if not plan.profile.arrivals:
        return "Closed loop: buyers wait for their answers before they ask again"
    came = f"Open loop: {plan.profile.arrivals:g} buyers came per second"
    if came_out.late is None:
        return f"{came}; how many of them in time, Locust did not say"
    if not came_out.late and not came_out.unstarted:
        return f"{came}, all of them in time"
    return (
        f"{came}; {came_out.late} began late and {came_out.unstarted} not at all, for want of "
        "users to play them: take more --buyers"
    )
