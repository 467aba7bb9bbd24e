"""`manage.py prove`: run a sale under load and judge it."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from development import StackError
from development.signals import leave_if_asked
from lab.proof import compose, control_run, controls, show, testbed
from lab.proof.load import DIRECT, LoadFailed
from lab.proof.result import Result
from lab.proof.run import prove
from lab.proof.show import Lines, say, step
from lab.proof.testbed import Testbed
from lab.strategies import CLASSES, DEFAULT
from loadtest.checker import EXIT_CODES, Verdict
from loadtest.fault_needs import CONTAINERS
from loadtest.faults import CONTAINER_FAULTS, FAULTS, left_out
from loadtest.files import new_file
from loadtest.run_plan import RunPlan
from loadtest.scenarios import MIXES

CONTROL_BUYERS = 200
"""Enough buyers for races."""

AS_THEY_ARE = ("buyers", "limit", "strategy", "mix", "arrivals", "processes", "minutes", "times")
"""Options that a plan takes as they are."""


def at_least_one(text: str) -> int:
    """Parse a count.

    Raises:
        ArgumentTypeError: it is not a whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def at_least_zero(text: str) -> float:
    """Parse a number.

    Raises:
        ArgumentTypeError: it is below 0, infinite or none.
    """
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise ArgumentTypeError(f"{text!r} is not a number of at least 0")


def seed_of(options: dict[str, Any]) -> int:
    """Return the seed that was asked for, or draw one. Raises `CommandError` if it is below 0."""
    if options["seed"] < 0:
        raise CommandError("--seed must be at least 0.", returncode=2)
    return options["seed"] or random.SystemRandom().randrange(1, 2**31)


class Command(BaseCommand):
    """Prove that nothing is oversold, lost or duplicated."""

    help = (
        "Run a sale for synthetic buyers who record every answer, then compare all answers with "
        "the database. Exit code: 0 proved, 1 a property is broken, 2 could not be judged "
        "(make ends with 2 for both)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--buyers", type=at_least_one, default=2000, help="at once (2000)")
        parser.add_argument(
            "--stock", type=at_least_one, help="units (100; 1000 per refill in longer runs)"
        )
        parser.add_argument("--limit", type=at_least_one, default=1, help="units per buyer (1)")
        parser.add_argument("--strategy", choices=list(CLASSES), default=DEFAULT)
        parser.add_argument("--mix", choices=list(MIXES), default="rush", help="buyer mix (rush)")
        parser.add_argument("--seed", type=int, default=0, help="repeats a run; 0 draws one")
        parser.add_argument(
            "--arrivals",
            type=at_least_zero,
            default=0.0,
            metavar="RATE",
            help="open loop: buyers arriving per second, however slow the shop is",
        )
        parser.add_argument(
            "--processes", type=at_least_one, default=1, help="load-generating processes (1)"
        )
        parser.add_argument(
            "--minutes",
            type=at_least_zero,
            default=0.0,
            metavar="M",
            help="restock and keep buying for this long (0: until all buyers are served)",
        )
        parser.add_argument(
            "--fault",
            action="append",
            default=[],
            choices=[*FAULTS, *CONTAINER_FAULTS],
            metavar="NAME",
            help=f"fault to inject during the run, repeatable: {', '.join(FAULTS)}; "
            f"with --compose instead {', '.join(CONTAINER_FAULTS)}",
        )
        parser.add_argument(
            "--times", type=at_least_one, default=1, help="inject each fault so often (1)"
        )
        parser.add_argument(
            "--compose",
            choices=compose.NAMES,
            help="run the shop in containers, on servers that fail over "
            "(docs/high-availability.md), and break each of these unless --fault chooses some",
        )
        parser.add_argument(
            "--faults",
            choices=["all"],
            help="inject every fault that is possible here, at least once unless --minutes",
        )
        parser.add_argument(
            "--controls",
            action="store_true",
            help="instead, disable one safeguard after the other; each must make a property fail",
        )
        parser.add_argument("--quick", action="store_true", help="a short form of --controls")
        parser.add_argument(
            "--control",
            action="append",
            choices=[control.name for control in controls.CONTROLS],
            help="run only this control, repeatable",
        )
        parser.add_argument(
            "--json", type=new_file, metavar="FILE", help="write the result as JSON"
        )
        parser.add_argument(
            "--jsonl",
            type=Path,
            metavar="FOLDER",
            help="keep history, snapshots and report in this folder",
        )
        parser.add_argument(
            "--report", type=new_file, metavar="FILE", help="write the report, one HTML file"
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        console = Console()
        if options["controls"] or options["quick"] or options["control"]:
            _control(console, options)
        plan = _plan(console, options)
        if plan.faults:
            quieten()
        report = options["report"] or (options["jsonl"] and options["jsonl"] / "report.html")
        try:
            with (
                _folder(options["jsonl"]) as folder,
                shop_for(console, plan.faults, containers=plan.compose) as where,
            ):
                result = prove(plan, where, folder, Lines(console, plan), report)
                if not options["jsonl"] and (where.stack is not None or plan.compose):
                    result.log = None  # it is deleted with the folder
        except (LoadFailed, StackError, OSError) as error:
            leave_if_asked()
            result = Result(0, Verdict(), reason=str(error))
        show.result(console, plan, result)
        if options["json"]:
            document = json.dumps(result.to_json(plan), indent=2)
            options["json"].write_text(document + "\n")
        if report and report.exists():
            console.print(f"Report: {report.resolve()}", soft_wrap=True, highlight=False)
        sys.exit(EXIT_CODES[result.outcome])


def _control(console: Console, options: dict[str, Any]) -> NoReturn:
    """Run the negative controls; exit with 0 if all were caught, 1 if not, 2 if one cannot run."""
    quieten()
    seed = seed_of(options)
    every = tuple(control.name for control in controls.CONTROLS)
    names = options["control"] or (controls.QUICK if options["quick"] else every)
    outcomes: list[control_run.Outcome] = []
    try:
        call_command("migrate", verbosity=0)
        for outcome in control_run.run(names, seed, CONTROL_BUYERS, partial(Lines, console)):
            outcomes.append(outcome)
            say(console, f"{outcome.control.name}: {'' if outcome.caught else 'NOT '}as expected")
        console.print(show.controls(outcomes, seed))
    except (LoadFailed, StackError, OSError) as error:
        console.print(f"[red]{error}[/]")
        sys.exit(2)
    if options["json"]:
        rows = [outcome.to_json() for outcome in outcomes]
        document = json.dumps({"seed": seed, "controls": rows}, indent=2)
        options["json"].write_text(document + "\n")
    sys.exit(0 if all(outcome.caught for outcome in outcomes) else 1)


def _plan(console: Console, options: dict[str, Any]) -> RunPlan:
    faults = tuple(dict.fromkeys(options["fault"]))
    in_containers = bool(options["compose"])
    every = list(CONTAINER_FAULTS if in_containers else FAULTS)
    if in_containers and (others := set(faults) - set(every)):
        raise CommandError(
            f"{', '.join(sorted(others))}: not in containers; there are {', '.join(every)}",
            returncode=2,
        )
    if in_containers and options["mix"] in DIRECT:
        raise CommandError(
            f"--mix {options['mix']} needs a web process on this machine, without --compose",
            returncode=2,
        )
    takes_all = options["faults"] or (in_containers and not faults)
    there = frozenset({CONTAINERS}) if in_containers else testbed.has()
    lacking = left_out(every if takes_all else faults, there)
    if takes_all:
        for name, what in lacking.items():
            console.print(f"[yellow]Left out: {name}[/] needs {what}.")
        faults = tuple(name for name in every if name not in lacking)
    elif lacking:
        needs = "; ".join(f"{name} needs {what}" for name, what in lacking.items())
        raise CommandError(needs, returncode=2)
    return RunPlan(
        **{name: options[name] for name in AS_THEY_ARE},
        seed=seed_of(options),
        stock=options["stock"] or (1000 if faults or options["minutes"] else 100),
        faults=faults,
        left_out=lacking,
        compose=options["compose"] or "",
    )


@contextmanager
def shop_for(
    console: Console,
    faults: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    containers: str = "",
) -> Iterator[Testbed]:
    """Use the demo's shop that asked for this command, or start one; in containers if named."""
    if containers:
        with ExitStack() as cleanup:
            with step(console, "Starting the shop in containers", "The shop is started"):
                composed = cleanup.enter_context(compose.composed(containers))
            yield composed
        return
    url = os.environ.get("SHOP_URL")
    if url and not faults:
        yield testbed.running(url)
        return
    with step(console, "Migrating the database", "The database is migrated"):
        call_command("migrate", verbosity=0)
    with ExitStack() as cleanup:
        with step(console, "Starting the shop", "The shop is started"):
            where = cleanup.enter_context(testbed.started(faults, extra))
        yield where


def quieten() -> None:
    """Silence this process's logs of intended outages."""
    for name in ("psycopg.pool", "inventory", "shop", "django"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    if wanted is None:
        with tempfile.TemporaryDirectory(prefix="proof-") as name:
            yield Path(name)
        return
    if wanted.exists() and any(wanted.iterdir()):
        raise CommandError(f"{wanted} is not empty: it holds another run's history", returncode=2)
    wanted.mkdir(parents=True, exist_ok=True)
    yield wanted
