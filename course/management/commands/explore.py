"""`manage.py explore`: search for a schedule that breaks the production lock."""

import os
import shlex
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import Progress

from course.simulator.schedule import ACTS, FAULTS, Act
from course.simulator.search import DEFAULT_ACTS, Exploration, Tally, explore, shortest
from course.simulator.timeline import print_timeline, rows


class Command(BaseCommand):
    """The command; it exits with 1 if a schedule broke the lock."""

    help = "Search the production lock with random schedules: crashes, pauses and lost replies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        faults = ", ".join(name for name, act in ACTS.items() if act in FAULTS)
        usual = ",".join(name for name, act in ACTS.items() if act in DEFAULT_ACTS & FAULTS)
        parser.add_argument("--lock", choices=["redis"], default="redis", help="the one there is")
        parser.add_argument("--schedules", type=int, default=100_000, help="(100,000)")
        parser.add_argument("--seed", type=int, default=7, help="of the first schedule (7)")
        parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
        parser.add_argument("--faults", default=usual, help=f"separated by commas, of: {faults}")
        parser.add_argument(
            "--no-fence", action="store_true", help="let the guarded resource ignore the tokens"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Search, and print what was found."""
        names = [name for name in options["faults"].split(",") if name]
        if unknown := [name for name in names if name not in ACTS]:
            raise CommandError(f"no such fault: {unknown[0]}", returncode=2)
        for name in ("schedules", "processes"):
            if options[name] < 1:
                raise CommandError(f"a search takes at least one of --{name}", returncode=2)
        what = Exploration(
            frozenset({Act.SWITCH, *(ACTS[name] for name in names)}),
            fenced=not options["no_fence"],
        )
        began = time.monotonic()
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("schedules", total=options["schedules"])
            tally = explore(
                what,
                schedules=options["schedules"],
                seed=options["seed"],
                processes=options["processes"],
                progress=lambda tally: progress.update(task, completed=tally.schedules),
            )
        console = Console(highlight=False)
        console.out(
            f"\n{tally.schedules:,} schedules, {tally.steps:,} commands, "
            f"{time.monotonic() - began:.0f} s.\n"
            f"Holders that entered while an expired holder was still working: {tally.overlaps:,}.\n"
            f"Stale writes that the fence refused: {tally.refused:,}."
        )
        if not tally.violations:
            console.print("\nNo violation.", style="bold green")
            return
        _show_shortest(console, what, tally, options)
        sys.exit(1)


def _show_shortest(
    console: Console, what: Exploration, tally: Tally, options: dict[str, Any]
) -> None:
    seed, wrong = min(tally.violations)
    schedule, run = shortest(what, seed, wrong)
    console.print(f"\nThe shortest history of: {wrong}\n", style="bold")
    for deviation in schedule:
        console.out(f"  {deviation}")
    console.print()
    print_timeline(console, rows(run.history))
    fence = " --no-fence" if options["no_fence"] else ""
    console.out(
        f"\nRepeat it: python3 manage.py explore --schedules 1 --seed {seed} "
        f"--faults {shlex.quote(options['faults'])}{fence}"
    )
    console.print("\nBROKEN", style="bold red")
