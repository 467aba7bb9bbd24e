"""`manage.py duel`: two strategies sell to the same buyers, one after the other."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from development import StackError
from lab.management.commands.prove import at_least_one, seed_of, shop_for
from lab.proof import show
from lab.proof.load import LoadFailed
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.show import Lines
from lab.room.duel import SIDES, fight, outcome, units_of
from lab.room.views import DUEL_BUYERS, DUEL_UNITS, UNSAFE
from lab.strategies import CLASSES, DEFAULT
from loadtest.checker import EXIT_CODES
from loadtest.files import RunFiles, Runs
from loadtest.run_plan import RunPlan

COUNTED = 1.0
"""Seconds between two counts of the units that are taken."""


class Command(BaseCommand):
    """Let two strategies sell to the same buyers, one after the other."""

    help = (
        "Let two strategies sell to the same buyers, one after the other, and judge both. Exit "
        "code: 0 both were judged, 2 one could not be."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--first", choices=list(CLASSES), default=UNSAFE)
        parser.add_argument("--second", choices=list(CLASSES), default=DEFAULT)
        parser.add_argument("--buyers", type=at_least_one, default=DUEL_BUYERS, help="of each side")
        parser.add_argument("--stock", type=at_least_one, default=DUEL_UNITS, help="units each")
        parser.add_argument("--seed", type=int, default=0, help="repeats a duel; 0 draws one")
        parser.add_argument(
            "--folder", type=Path, help="keep the last duels here, with their reports"
        )
        parser.add_argument(
            "--lines", action="store_true", help="write JSON lines instead, for the page /duel/"
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        seed = seed_of(options)
        # The same buyers, by the same seed.
        buyers, stock = options["buyers"], options["stock"]
        sides = [
            RunPlan(buyers=buyers, seed=seed, stock=stock, strategy=options[name]) for name in SIDES
        ]
        kept = options["folder"] or Path(tempfile.mkdtemp(prefix="duel-"))
        run = Runs(kept.resolve()).new()
        console = Console(stderr=options["lines"])
        if options["lines"]:
            _say(run=run.number)

        def watch(number: int) -> Callable[[Progress], None]:
            if options["lines"]:
                return _Phases(number)
            return Lines(console, sides[number], sides[number].strategy)

        try:
            with shop_for(console) as where:
                results = fight(sides, where, run.path, watch)
        except (LoadFailed, StackError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        if options["lines"]:
            _say(results=[outcome(result) for result in results])
        else:
            _conclude(console, sides, results, run.path)
        judged = all(result.outcome != "unknown" for result in results)
        sys.exit(0 if judged else EXIT_CODES["unknown"])


class _Phases:
    """Writes a side's phases and the units that are taken as JSON lines."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._told: dict[str, object] = {}
        self._next = 0.0

    def __call__(self, now: Progress) -> None:
        if now.phase == self._told.get("phase") and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + COUNTED
        found = {"side": self._side, "phase": now.phase, **units_of(now.sale)}
        if found != self._told:
            self._told = found
            _say(**found)


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _conclude(console: Console, sides: list[RunPlan], results: list[Result], folder: Path) -> None:
    for plan, result, name in zip(sides, results, SIDES, strict=True):
        show.result(console, plan, result)
        report = RunFiles(folder / name).report
        console.print(f"Report: {report}", soft_wrap=True, highlight=False)
    console.print("To see both side by side in a browser: make demo, then open /duel/.")
