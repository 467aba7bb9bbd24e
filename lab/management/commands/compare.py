"""``manage.py compare``: every strategy under the same load, faults and checker."""

from __future__ import annotations

import json
import logging
import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from lab import environment
from lab.bench.compare import measure, report
from lab.bench.compare.measure import Compared, Scale
from lab.bench.run import machine
from lab.proof import testbed
from lab.proof.load_profile import LoadFailed
from lab.stack.errors import StackError
from lab.strategies import CLASSES
from loadtest import open_files
from loadtest.faults import FAULTS, left_out

JSON = "strategies.json"
NOTES = environment.PROJECT / "lab" / "bench" / "compare" / "notes.md"
FAULTS_BY_DEFAULT = (
    *("web-killed-before-commit", "web-killed-after-commit", "redis-killed"),
    *("postgres-killed", "commit-lost"),
)
"""Kills each server that a purchase needs, and web workers at the most critical points."""


class Command(BaseCommand):
    """Compare the strategies."""

    help = (
        "Sell the same stock with each strategy, then without Redis, then under faults with a "
        "verdict; write docs/strategies.md, .svg and .json."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--only", nargs="+", choices=list(CLASSES), help="these strategies")
        parser.add_argument("--stock", type=int, default=10_000, help="units to sell (10000)")
        parser.add_argument("--connections", type=int, default=128, help="of the load (128)")
        parser.add_argument(
            "--seconds", type=float, default=12.0, help="limit of one sell-through (12)"
        )
        parser.add_argument("--away", type=float, default=4.0, help="seconds without Redis (4)")
        parser.add_argument("--buyers", type=int, default=300, help="per proof (300)")
        parser.add_argument("--seed", type=int, default=7, help="of the proofs (7)")
        parser.add_argument(
            "--fault",
            action="append",
            choices=list(FAULTS),
            metavar="NAME",
            help=f"in the proofs, repeatable ({', '.join(FAULTS_BY_DEFAULT)})",
        )
        parser.add_argument(
            "--docs", type=Path, default=environment.PROJECT / "docs", help="folder to write to"
        )
        parser.add_argument(
            "--redraw",
            action="store_true",
            help="do not measure: rewrite page and chart from the folder's strategies.json",
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        if options["redraw"]:
            _redraw(options["docs"])
            return
        console = Console()
        scale = _scale(options)
        names = options["only"] or list(CLASSES)
        started = time.monotonic()
        call_command("migrate", verbosity=0)
        for noisy in ("psycopg.pool", "inventory", "shop", "django"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        try:
            rows = [each.to_json() for each in _compare(console, names, scale)]
        except (LoadFailed, StackError, OSError) as error:
            raise CommandError(str(error)) from error
        _write(options["docs"], {"rows": rows, "machine": machine(), "scale": asdict(scale)})
        console.print(f"Written to {options['docs']} after {time.monotonic() - started:.0f} s.")


def _scale(options: dict[str, Any]) -> Scale:
    faults = tuple(options["fault"] or FAULTS_BY_DEFAULT)
    if lacking := left_out(faults, testbed.has()):
        raise CommandError("; ".join(f"{name} needs {what}" for name, what in lacking.items()))
    return Scale(
        stock=options["stock"],
        connections=options["connections"],
        most_seconds=options["seconds"],
        redis_away=options["away"],
        buyers=options["buyers"],
        faults=faults,
        seed=options["seed"],
    )


def _compare(console: Console, names: list[str], scale: Scale) -> list[Compared]:
    """Measure all rates in a shop without failpoints; then run the measurements with faults."""
    open_files.raise_limit()
    sold = {}
    with testbed.plain() as where:
        measure.let_follow_up_rest(where)
        tokens = measure.tokens_of(where)
        for name in names:
            with console.status(f"{name}: selling {scale.stock:,} units …"):
                sold[name] = measure.sell_through(where, name, scale, tokens)
            console.print(
                f"{name:<12} {sold[name].rate:>8,.0f}/s   p99 {sold[name].p99_ms:>8,.1f} ms   "
                f"sold {sold[name].sold:>7,}   left {sold[name].left:>7,}"
            )
    compared = []
    with testbed.breakable(scale.faults) as where:
        tokens = measure.tokens_of(where)
        for name in names:
            with console.status(f"{name}: without Redis …"):
                away = measure.without_redis(where, name, scale, tokens)
            with console.status(f"{name}: {', '.join(scale.faults)} …"):
                proof = measure.prove(where, name, scale)
            compared.append(Compared(name, sold[name], away, proof))
            console.print(
                f"{name:<12} {away.rate:>8,.0f}/s without Redis   {proof['verdict']} "
                f"{proof['reason']}   oversold {report.oversold(compared[-1].to_json())}"
            )
    return compared


def _write(folder: Path, document: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JSON).write_text(json.dumps(document, indent=1) + "\n")
    _redraw(folder)


def _redraw(folder: Path) -> None:
    """Write the page and the chart from the figures in the folder."""
    document = json.loads((folder / JSON).read_text(encoding="utf-8"))
    rows, facts, scale = document["rows"], document["machine"], document["scale"]
    about = (
        f"{facts['cores']} cores shared by web, PostgreSQL {facts['postgresql']} (fsync "
        f"{facts['fsync']}), Valkey and the load; Python {facts['python']}"
    )
    figures = report.page(rows, _command(scale, [row["name"] for row in rows]), about, scale)
    (folder / "strategies.svg").write_text(report.chart(rows, about))
    (folder / "strategies.md").write_text(figures + "\n" + NOTES.read_text(encoding="utf-8"))


def _command(scale: dict[str, Any], names: list[str]) -> str:
    """Return the command that repeats the measurement."""
    options = {
        "stock": "stock",
        "connections": "connections",
        "seconds": "most_seconds",
        "away": "redis_away",
        "buyers": "buyers",
        "seed": "seed",
    }
    arguments = [f"--{name} {scale[figure]:g}" for name, figure in options.items()]
    if tuple(scale["faults"]) != FAULTS_BY_DEFAULT:
        arguments += [f"--fault {name}" for name in scale["faults"]]
    if set(names) != set(CLASSES):
        arguments += [f"--only {' '.join(names)}"]
    return f'make compare ARGS="{" ".join(arguments)}"'
