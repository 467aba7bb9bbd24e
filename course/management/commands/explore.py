"""`manage.py explore`: search for a schedule that breaks a production lock."""

import json
import os
import shlex
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import Progress

from course.simulator.explore import DEFAULT_ACTS, Exploration, Finding, Tally, explore, finding
from course.simulator.explored_locks import EXPLORED_LOCKS, VISITOR
from course.simulator.history import Kind
from course.simulator.schedule import ACTS, FAULTS, Act, to_json
from course.simulator.simulation import Run
from course.simulator.timeline import Row, as_json, print_timeline, rows, violations_json


class Command(BaseCommand):
    """The command; it exits with 1 if a schedule broke the lock."""

    help = "Search a production lock with random schedules: crashes, pauses and lost replies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        faults = ", ".join(name for name, act in ACTS.items() if act in FAULTS)
        usual = ",".join(name for name, act in ACTS.items() if act in DEFAULT_ACTS & FAULTS)
        parser.add_argument("--lock", choices=list(EXPLORED_LOCKS), default="redis")
        parser.add_argument("--schedules", type=int, default=100_000, help="how many")
        parser.add_argument("--seed", type=int, default=7, help="the seed of the first schedule")
        parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
        parser.add_argument("--faults", default=usual, help=f"separated by commas, of: {faults}")
        parser.add_argument(
            "--no-fence", action="store_true", help="let the guarded resource ignore the tokens"
        )
        parser.add_argument("--json", action="store_true", help="print plain values")

    def handle(self, *args: Any, **options: Any) -> None:
        """Search, and print what was found."""
        names = [name for name in options["faults"].split(",") if name]
        if unknown := [name for name in names if name not in ACTS]:
            raise CommandError(f"no such fault: {unknown[0]}", returncode=2)
        what = Exploration(
            frozenset({Act.SWITCH, *(ACTS[name] for name in names)}),
            EXPLORED_LOCKS[options["lock"]],
            fenced=not options["no_fence"],
        )
        began = time.monotonic()
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("schedules", total=options["schedules"])
            tally = explore(
                what,
                schedules=max(1, options["schedules"]),
                seed=options["seed"],
                processes=options["processes"],
                progress=lambda tally: progress.update(task, completed=tally.schedules),
            )
        seconds = time.monotonic() - began
        found = finding(what, tally)
        if options["json"]:
            json.dump(_values(tally, seconds, options, found), sys.stdout, indent=2)
            sys.stdout.write("\n")
        else:
            _tell(tally, seconds, options, found)
        if tally.violations:
            sys.exit(1)


def _tell(tally: Tally, seconds: float, options: dict[str, Any], found: Finding | None) -> None:
    console = Console(highlight=False)
    console.out(
        f"\n{tally.schedules:,} schedules, {tally.steps:,} commands, {seconds:.0f} s.\n"
        f"Holders that entered while an expired holder was still working: {tally.overlaps:,}.\n"
        f"Stale writes that the fence refused: {tally.refused:,}."
    )
    if found is not None:
        console.print(f"\nThe shortest history of: {found.what}\n", style="bold")
        for deviation in found.schedule:
            console.out(f"  {deviation}")
        console.print()
        print_timeline(console, story(found.run))
        console.out(f"\nRepeat it: {_repeat(found, options)}")
    if tally.violations:
        console.print("\nBROKEN", style="bold red")
    else:
        console.print("\nNo violation.", style="bold green")


def story(run: Run) -> list[Row]:
    """Return the history without late visitors, unless it shows a failure."""
    lines = rows(run.history)
    if any(line.kind is Kind.VIOLATION for line in lines):
        return lines
    return [line for line in lines if not line.who.startswith(VISITOR)]


def _repeat(found: Finding, options: dict[str, Any]) -> str:
    fence = " --no-fence" if options["no_fence"] else ""
    return (
        f"python3 manage.py explore --lock {options['lock']} --schedules 1 --seed {found.seed} "
        f"--faults {shlex.quote(options['faults'])}{fence}"
    )


def _values(
    tally: Tally, seconds: float, options: dict[str, Any], found: Finding | None
) -> dict[str, Any]:
    return {
        "lock": options["lock"],
        "seed": options["seed"],
        "schedules": tally.schedules,
        "commands": tally.steps,
        "seconds": round(seconds, 1),
        "overlaps": tally.overlaps,
        "stale_writes_refused": tally.refused,
        "violations": [{"seed": seed, "wrong": str(wrong)} for seed, wrong in tally.violations],
        "finding": found
        and {
            "seed": found.seed,
            "what": found.what,
            "schedule": to_json(found.schedule),
            "violations": violations_json(found.run.violations),
            "events": as_json(story(found.run)),
            "repeat": _repeat(found, options),
        },
    }
