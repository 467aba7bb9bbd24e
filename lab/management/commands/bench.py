"""`manage.py bench`: measure every strategy and the ceiling, in one run."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from rich.console import Console

from development import StackError
from development.embedded import ServerUrls
from lab.bench import report, run, targets
from lab.bench.rows import Row
from lab.bench.rows import rows as bench_rows
from lab.bench.run import PURCHASES, Bench, Measured
from lab.management.commands.prove import at_least_one


class Command(BaseCommand):
    """Measure the strategies."""

    help = (
        "Send the same request to an empty view and to a sale of each strategy, in interleaved "
        "rounds; print the medians, the ratios and the audit's findings."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        report.add_arguments(parser, seconds=5, rounds=3)
        parser.add_argument(
            "--concurrency", type=at_least_one, default=128, help="connections (128)"
        )
        parser.add_argument(
            "--crowd", type=int, default=2000, help="connections of the rush rows (2000; 0: none)"
        )
        parser.add_argument("--only", nargs="+", metavar="ROW", help="measure only these rows")

    def handle(self, **options: Any) -> None:  # noqa: D102
        def measure() -> dict[str, Any]:
            return _purchases(options) | {"machine": _machine()}

        try:
            report.finish(PURCHASES, options, measure)
        except (StackError, OSError) as error:
            raise CommandError(str(error)) from error


def _purchases(options: Mapping[str, Any]) -> dict[str, Any]:
    found = bench_rows(options["concurrency"], options["crowd"])
    _refuse_unknown(options["only"], {row.name for row in found})
    wanted = [row for row in found if not options["only"] or row.name in options["only"]]
    measured = _measure(wanted, options)
    return {"rows": [case.to_json() for case in measured], "ratios": run.ratios(measured)}


def _measure(wanted: list[Row], options: Mapping[str, Any]) -> list[Measured]:
    """Measure rows; leave out those of peers that are not installed."""
    console = Console(stderr=True)
    for server in sorted({row.server for row in wanted}, key=str):
        if lacking := targets.missing(server):
            console.print(
                f"{server} is left out: it needs {', '.join(lacking)} (requirements/dev.txt; "
                "`make .venv/.dev` installs them)."
            )
            wanted = [row for row in wanted if row.server != server]
    call_command("migrate", verbosity=0)
    urls = ServerUrls.of_environment()
    with ExitStack() as cleanup, console.status("") as status:
        servers = (row.server for row in wanted)
        started = targets.start(servers, urls, cleanup, status.update)
        return Bench(started, options["seconds"]).run(wanted, options["rounds"], status.update)


def _machine() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version'), current_setting('fsync')")
        version, fsync = cursor.fetchone()
    return report.machine(database=f"PostgreSQL {version} (fsync {fsync})", redis="Valkey")


def _refuse_unknown(names: list[str] | None, known: set[str]) -> None:
    if unknown := set(names or ()) - known:
        raise CommandError(
            f"no such row: {', '.join(sorted(unknown))}; choose from {sorted(known)}"
        )
