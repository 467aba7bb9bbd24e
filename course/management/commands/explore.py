"""`manage.py explore`: search for a schedule that breaks a production lock."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from course.management.commands.lesson import RIGHT, UNUSABLE, WRONG
from course.simulator import explore as search_at_random
from course.simulator.explore import DEFAULT_ACTS, Exploration, Tally, first_wrong, shortest
from course.simulator.explored_locks import EXPLORED_LOCKS, VISITOR
from course.simulator.history import Kind
from course.simulator.schedule import FAULTS, Act, Schedule, to_json
from course.simulator.simulation import Run
from course.simulator.timeline import Row, as_json, print_timeline, rows, violations_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explore`."""
    faults = ", ".join(_name(act) for act in sorted(FAULTS))
    parser.add_argument(
        "--lock", choices=list(EXPLORED_LOCKS), default="redis", help="which lock to search"
    )
    parser.add_argument("--schedules", type=_positive, default=100_000, help="how many")
    parser.add_argument("--seed", type=int, default=7, help="the seed of the first schedule")
    parser.add_argument("--processes", type=_positive, default=os.cpu_count() or 1)
    parser.add_argument(
        "--faults",
        default=",".join(_name(act) for act in sorted(DEFAULT_ACTS - {Act.SWITCH})),
        help=f"separated by commas, of: {faults}",
    )
    parser.add_argument(
        "--no-fence", action="store_true", help="let the guarded resource ignore the tokens"
    )
    parser.add_argument("--json", action="store_true", help="print plain values")


def run_explore(options: argparse.Namespace) -> int:
    """Search; return 0 if no schedule broke the lock, else 1."""
    console = Console()
    try:
        acts = search_at_random.acts_named([name for name in options.faults.split(",") if name])
    except KeyError as unknown:
        Console(stderr=True).print(f"no such fault: {unknown.args[0]}", highlight=False)
        return UNUSABLE
    what = Exploration(acts, EXPLORED_LOCKS[options.lock], fenced=not options.no_fence)
    began = time.monotonic()
    tally = _search(what, options)
    seconds = time.monotonic() - began
    finding = _finding(what, tally)
    if options.json:
        json.dump(_values(tally, seconds, options, finding), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        _tell(console, tally, seconds, finding, options)
    return WRONG if tally.violations else RIGHT


Finding = tuple[int, str, Schedule, Run]
"""The seed, the failure, the shortest schedule that causes it, and that schedule's run."""


def _search(what: Exploration, options: argparse.Namespace) -> Tally:
    columns = (
        TextColumn("{task.completed:,} of {task.total:,} schedules"),
        BarColumn(),
        TextColumn("{task.fields[news]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task: TaskID = progress.add_task("", total=options.schedules, news="")

        def tell(tally: Tally) -> None:
            news = f"{tally.overlaps} overlaps, {tally.refused} stale writes refused"
            progress.update(task, completed=tally.schedules, news=news)

        return search_at_random.explore(
            what,
            schedules=options.schedules,
            seed=options.seed,
            processes=min(options.processes, options.schedules),
            progress=tell,
        )


def _finding(what: Exploration, tally: Tally) -> Finding | None:
    """Return the violation, or else a schedule in which the fence refuses a write."""
    if tally.violations:
        seed, wrong = min(tally.violations)
        return seed, str(wrong), *shortest(what, seed, lambda run: first_wrong(what, run) is wrong)
    if tally.refusals:
        seed = tally.refusals[0]
        return seed, "a stale write refused", *shortest(what, seed, lambda run: run.refused > 0)
    return None


def _tell(
    console: Console,
    tally: Tally,
    seconds: float,
    finding: Finding | None,
    options: argparse.Namespace,
) -> None:
    console.out(
        f"\n{tally.schedules:,} schedules, {tally.steps:,} commands, {seconds:.0f} s.\n"
        f"Holders that entered while an expired holder was still working: {tally.overlaps:,}.\n"
        f"Stale writes that the fence refused: {tally.refused:,}.",
        highlight=False,
    )
    if finding is not None:
        seed, name, schedule, run = finding
        console.print(f"\nThe shortest history of: {name}\n", style="bold")
        for deviation in schedule:
            console.out(f"  {deviation}", highlight=False)
        console.print()
        print_timeline(console, story(run))
        console.out(f"\nRepeat it: {_repeat(seed, options)}", highlight=False)
    if tally.violations:
        console.print("\nBROKEN", style="bold red")
    else:
        console.print("\nNo violation.", style="bold green")


def story(run: Run) -> list[Row]:
    """Return the history without late visitors, unless they show the failure."""
    lines = rows(run.history)
    told = [line for line in lines if not line.who.startswith(VISITOR)]
    if any(line.kind is Kind.VIOLATION for line in lines):
        return lines
    return told


def _repeat(seed: int, options: argparse.Namespace) -> str:
    fence = " --no-fence" if options.no_fence else ""
    return (
        f"python3 manage.py explore --lock {options.lock} --schedules 1 --seed {seed} "
        f"--faults {shlex.quote(options.faults)}{fence}"
    )


def _values(
    tally: Tally, seconds: float, options: argparse.Namespace, finding: Finding | None
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "lock": options.lock,
        "seed": options.seed,
        "schedules": tally.schedules,
        "commands": tally.steps,
        "seconds": round(seconds, 1),
        "overlaps": tally.overlaps,
        "stale_writes_refused": tally.refused,
        "violations": [{"seed": seed, "wrong": str(wrong)} for seed, wrong in tally.violations],
        "finding": None,
    }
    if finding is not None:
        seed, name, schedule, run = finding
        values["finding"] = {
            "seed": seed,
            "what": name,
            "schedule": to_json(schedule),
            "violations": violations_json(run.violations),
            "events": as_json(story(run)),
            "repeat": _repeat(seed, options),
        }
    return values


def _name(act: Act) -> str:
    return act.value.replace(" ", "-")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


class Command(BaseCommand):
    """The command."""

    help = "Search a production lock with random schedules: crashes, pauses and lost replies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Search; exit with 1 if a schedule broke the lock."""
        if code := run_explore(argparse.Namespace(**options)):
            sys.exit(code)
