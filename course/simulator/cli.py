"""The commands `lesson` and `explore`, without Django; `manage.py` passes its arguments on."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from course.exercises import cli as exercises
from course.exercises.catalogue import SHOP
from course.exercises.catalogue import find as find_any
from course.lessons import LESSONS, find
from course.simulator import explore as search_at_random
from course.simulator import repeat_command
from course.simulator.course import is_up_to_date, update_document
from course.simulator.explore import DEFAULT_ACTS, Exploration, Tally, first_wrong, shortest
from course.simulator.explored_locks import EXPLORED_LOCKS, VISITOR
from course.simulator.history import Kind
from course.simulator.lesson_report import Report, as_values, reports, violations_json
from course.simulator.schedule import FAULTS, Act, Schedule, to_json
from course.simulator.simulation import Run
from course.simulator.timeline import (
    Row,
    as_json,
    as_mermaid,
    print_prose,
    print_timeline,
    rows,
)

PROVED, BROKEN, UNUSABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m course.simulator", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(required=True)
    lesson = commands.add_parser("lesson", help="list the lessons, or break one")
    add_lesson_arguments(lesson)
    lesson.set_defaults(run=run_lesson)
    explore = commands.add_parser("explore", help="search a production lock for a violation")
    add_explore_arguments(explore)
    explore.set_defaults(run=run_explore)
    course = commands.add_parser("course", help="write today's code and pictures for docs/locks.md")
    course.add_argument("document", nargs="?", type=Path, default=Path("docs/locks.md"))
    course.add_argument("--check", action="store_true", help="change nothing; 1 if it is stale")
    course.set_defaults(run=run_course)
    options = parser.parse_args(arguments)
    exit_code: int = options.run(options)
    return exit_code


# -- lesson


def add_lesson_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lesson`."""
    parser.add_argument("lesson", nargs="?", help="a name or a number; without it, the list")
    parser.add_argument("--scenario", help="only this one of the lesson's scenarios")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--mermaid", action="store_true", help="print sequence diagrams")
    form.add_argument("--json", action="store_true", help="print plain values")
    exercises.add_arguments(parser)


def run_lesson(options: argparse.Namespace) -> int:
    """List the lessons or show one; return 0 if it broke and its fix held."""
    console = Console()
    if options.lesson is None:
        return _list(console, as_values_too=options.json)
    try:
        lesson = (find_any if exercises.wanted(options) else find)(options.lesson)
    except KeyError as unknown:
        Console(stderr=True).print(unknown.args[0], highlight=False, markup=False)
        return UNUSABLE
    if exercises.wanted(options):
        return exercises.run_exercise(lesson, options, console)
    played = reports(lesson)
    if options.scenario:
        known = ", ".join(one.scenario.slug for one in played)
        played = [one for one in played if one.scenario.slug == options.scenario]
        if not played:
            Console(stderr=True).print(f"no such scenario; there are {known}", highlight=False)
            return UNUSABLE
    if options.json:
        _print_json([as_values(one) for one in played])
    elif options.mermaid:
        for one in played:
            console.out(
                f"%% {one.scenario.title}\n{as_mermaid(one.broken_rows())}", highlight=False
            )
    else:
        _show(console, played)
    right = all(
        one.mended_well and (one.went_wrong is not None) == (one.scenario.wrong is not None)
        for one in played
    )
    return PROVED if right else BROKEN


def _list(console: Console, *, as_values_too: bool) -> int:
    if as_values_too:
        _print_json(
            [
                {
                    "number": one.number,
                    "slug": one.slug,
                    "title": one.title,
                    "scenarios": [played.scenario.slug for played in reports(one)],
                }
                for one in LESSONS
            ]
        )
        return PROVED
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for lesson in LESSONS:
        table.add_row(str(lesson.number), lesson.slug, Text(lesson.title), style="bold")
        for played in reports(lesson):
            scenario = played.scenario
            line = f"{scenario.title} → {scenario.wrong or 'cannot go wrong'}"
            table.add_row("", f"  {scenario.slug}", Text(line), style="dim")
    console.print(table)
    console.print("\nName a lesson or its number to see it.  With --start FILE, mend it yourself.")
    console.print("Exercises about the shop: " + ", ".join(one.slug for one in SHOP))
    return PROVED


def _show(console: Console, played: list[Report]) -> None:
    lesson = played[0].scenario.lesson
    console.print()
    print_prose(console, lesson.docstring)
    for one in played:
        scenario = one.scenario
        console.print()
        console.print(Text(f"{scenario.slug}: {scenario.title}", style="bold underline"))
        print_prose(console, one.how)
        console.print()
        print_timeline(console, one.broken_rows())
        if scenario.wrong is None:
            console.print()
            print_prose(console, scenario.change)
            continue
        console.print()
        print_prose(console, f"Fixed by {one.mended_title}. {scenario.change}")
        console.print("The same schedule on that lock:\n")
        print_timeline(console, one.mended_rows())
        others = [str(v.wrong) for v in one.mended.violations]
        verdict = "The failure does not occur." if one.mended_well else "THE FAILURE STILL OCCURS."
        still = f" (Still: {', '.join(dict.fromkeys(others))}.)" if others else ""
        console.print(f"\n{verdict}{still}\n", style="bold")


# -- course


def run_course(options: argparse.Namespace) -> int:
    """Update the code and the pictures of the course."""
    path: Path = options.document
    if options.check:
        return PROVED if is_up_to_date(path) else BROKEN
    Console().print(f"{path} {'rewritten' if update_document(path) else 'is up to date'}")
    return PROVED


# -- explore


def add_explore_arguments(parser: argparse.ArgumentParser) -> None:
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
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--mermaid", action="store_true", help="print a sequence diagram")
    form.add_argument("--json", action="store_true", help="print plain values")


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
        _print_json(_values(tally, seconds, options, finding))
    elif options.mermaid:
        if finding is not None:
            console.out(as_mermaid(story(finding[3])), highlight=False)
    else:
        _tell(console, tally, seconds, finding, options)
    return BROKEN if tally.violations else PROVED


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
    return repeat_command.command(
        f"explore --lock {options.lock} --schedules 1 --seed {seed} "
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
            "violations": violations_json(run),
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


def _print_json(values: Any) -> None:
    json.dump(values, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
