"""``manage.py duel``: two strategies sell to the same buyers side by side."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from rich.columns import Columns
from rich.console import Console
from rich.live import Live

from lab.management.commands.prove import EXIT_CODES, at_least_one
from lab.proof import show, testbed
from lab.proof.lines import Lines
from lab.proof.load_profile import LoadFailed
from lab.proof.plan import Plan
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.testbed import Testbed
from lab.room.duel import fight, folders, plans
from lab.stack.errors import StackError
from lab.strategies import CLASSES, DEFAULT

UNSAFE = "naive"


class Command(BaseCommand):
    """Let two strategies sell to the same buyers at once."""

    help = (
        "Let two strategies sell to the same buyers side by side, and judge both. Exit code: 0 "
        "both were judged, 2 one could not be."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--first", choices=list(CLASSES), default=UNSAFE)
        parser.add_argument("--second", choices=list(CLASSES), default=DEFAULT)
        parser.add_argument("--buyers", type=at_least_one, default=500, help="of each side (500)")
        parser.add_argument("--stock", type=at_least_one, default=100, help="units each (100)")
        parser.add_argument("--seed", type=int, default=0, help="repeats a duel; 0 draws one")
        parser.add_argument(
            "--folder", type=Path, help="keep the last duels here, with their reports"
        )
        parser.add_argument(
            "--lines", action="store_true", help="write JSON lines instead, for the page /duel/"
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        seed = options["seed"] or random.SystemRandom().randrange(1, 2**31)
        sides = plans(
            (options["first"], options["second"]), options["buyers"], options["stock"], seed
        )
        kept = options["folder"] or Path(tempfile.mkdtemp(prefix="duel-"))
        number, places = folders(kept.resolve())
        shown = _lines(number) if options["lines"] else _table(Console(), sides)
        try:
            with shown as (tell, opened), _testbed() as where:
                results = fight(sides, where, places, tell=tell, opened=opened)
        except (LoadFailed, StackError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        reports = [place / "report.html" for place in places]
        if options["lines"]:
            _say(results=[_outcome(result) for result in results])
        else:
            _conclude(Console(), sides, results, reports)
        sys.exit(EXIT_CODES["unknown"] if _any_unknown(results) else 0)


Tell = Callable[[int, Progress], None]
Opened = Callable[[int, int], None]


@contextmanager
def _table(console: Console, sides: list[Plan]) -> Iterator[tuple[Tell, Opened]]:
    """Show both sides' progress beside each other, below on a narrow terminal, or in lines."""
    if not console.is_terminal:
        lines = [Lines(console, plan, plan.strategy) for plan in sides]
        yield lambda number, progress: lines[number](progress), lambda number, sale: None
        return
    now = [Progress("starting the shop") for _ in sides]
    with Live(console=console, transient=True, refresh_per_second=4) as live:

        def tell(number: int, progress: Progress) -> None:
            now[number] = progress
            live.update(Columns([show.progress(*each) for each in zip(sides, now, strict=True)]))

        yield tell, lambda number, sale: None


@contextmanager
def _lines(number: int) -> Iterator[tuple[Tell, Opened]]:
    """Write what changes as JSON lines."""
    phases: dict[int, str] = {}
    _say(run=number)

    def tell(side: int, progress: Progress) -> None:
        if phases.get(side) != progress.phase:
            phases[side] = progress.phase
            _say(side=side, phase=progress.phase)

    yield tell, lambda side, sale: _say(side=side, sale=sale)


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _outcome(result: Result) -> dict[str, Any]:
    counts = result.verdict.counts if result.verdict else {}
    return {
        "outcome": result.outcome,
        "orders": counts.get("orders", 0),
        "oversold": counts.get("oversold", 0),
    }


def _conclude(
    console: Console, sides: list[Plan], results: list[Result], reports: list[Path]
) -> None:
    for plan, result, report in zip(sides, results, reports, strict=True):
        show.result(console, plan, result)
        console.print(f"Report: {report}", soft_wrap=True, highlight=False)
    console.print("To watch a duel in a browser: make demo, then open /duel/.")


def _any_unknown(results: list[Result]) -> bool:
    return any(result.outcome == "unknown" for result in results)


@contextmanager
def _testbed() -> Iterator[Testbed]:
    """Use the demo's shop that asked for this duel, or start one."""
    if url := os.environ.get("SHOP_URL"):
        yield testbed.running(url)
        return
    call_command("migrate", verbosity=0)
    with testbed.plain() as where:
        yield where
