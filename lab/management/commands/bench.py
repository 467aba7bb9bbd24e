"""``manage.py bench``: measure every strategy and the ceiling, in one run."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from lab import environment
from lab.bench import growth, observed, recording, show, targets, viewers
from lab.bench.rows import Row, rows
from lab.bench.run import Bench, Measured, machine, ratios
from lab.proof import testbed
from lab.proof.load_profile import LoadFailed
from lab.stack.embedded import ServerUrls
from lab.stack.errors import StackError
from lab.stack.private import private_folder
from lab.stack.stack import Stack


class Command(BaseCommand):
    """Measure the strategies."""

    help = (
        "Send the same request to an empty view and to a sale of each strategy, in interleaved "
        "rounds; print the medians, the ratios and the audit's findings."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--concurrency", type=int, default=128, help="connections (128)")
        parser.add_argument(
            "--crowd", type=int, default=2000, help="connections of the rush rows (2000; 0: none)"
        )
        parser.add_argument("--seconds", type=float, default=5.0, help="of each sample (5)")
        parser.add_argument("--rounds", type=int, default=3, help="samples of each row (3)")
        parser.add_argument("--only", nargs="+", metavar="ROW", help="measure only these rows")
        parser.add_argument(
            "--recording",
            action="store_true",
            help="instead, measure Locust's purchases with and without recording the history",
        )
        parser.add_argument(
            "--viewers",
            type=int,
            metavar="N",
            help="instead, measure purchases with and without N viewers of the control room",
        )
        parser.add_argument(
            "--observed",
            action="store_true",
            help="instead, measure purchases with and without metrics, JSON logs and traces",
        )
        parser.add_argument(
            "--growth",
            action="store_true",
            help="instead, measure how a purchase's cost grows with connections, items, units and "
            "reservations; writes docs/bench-growth.json and its chart",
        )
        parser.add_argument(
            "--reservations",
            type=int,
            default=10_000_000,
            help="in the database that --growth fills, which takes minutes (10 million); kept on "
            "servers of your own (DATABASE_URL)",
        )
        parser.add_argument(
            "--redraw", action="store_true", help="with --growth, measure nothing: draw the chart"
        )
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
        parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there")

    def handle(self, **options: Any) -> None:  # noqa: D102
        console = Console()
        wanted = _wanted(options)
        if options["redraw"]:
            _show_growth(console, options)
            return
        call_command("migrate", verbosity=0)
        others = {
            "recording": _recording,
            "viewers": _viewers,
            "observed": _observed,
            "growth": _growth,
        }
        for name in filter(options.get, others):
            others[name](console, options)
            return
        measured = _measure(console, wanted, options)
        console.print(show.table(measured))
        for name, value in ratios(measured).items():
            console.print(f"  {name:<28} {value:.2f}")
        if options["json"]:
            document = {
                "rows": [each.to_json() for each in measured],
                "ratios": ratios(measured),
                "machine": machine(),
            }
            options["json"].write_text(json.dumps(document, indent=2) + "\n")
        if options["markdown"]:
            options["markdown"].write_text(show.markdown(measured))


def _measure(console: Console, wanted: list[Row], options: dict[str, Any]) -> list[Measured]:
    """Measure rows; leave out those of peers that are not installed."""
    for server in sorted({row.server for row in wanted}, key=str):
        if lacking := targets.missing(server):
            console.print(
                f"{server} is left out: it needs {', '.join(lacking)} (requirements/dev.txt; "
                "`make .venv/.dev` installs them)."
            )
            wanted = [row for row in wanted if row.server != server]
    urls = ServerUrls.of_environment()
    try:
        with ExitStack() as cleanup, console.status("") as status:
            servers = (row.server for row in wanted)
            bench = Bench(targets.start(servers, urls, cleanup, status.update), options["seconds"])
            return bench.run(
                wanted,
                options["rounds"],
                lambda row, turn: status.update(
                    f"Round {turn + 1} of {options['rounds']}: "
                    f"{row.name}, {row.concurrency} connections …"
                ),
            )
    except (StackError, OSError) as error:
        raise CommandError(str(error)) from error


def _growth(console: Console, options: dict[str, Any]) -> None:
    measured = _measure(console, growth.rows(options["reservations"]), options)
    found = growth.document(measured, machine())
    _growth_file(options).write_text(json.dumps(found, indent=1) + "\n")
    _show_growth(console, options)


def _show_growth(console: Console, options: dict[str, Any]) -> None:
    """Print the table of the measured growth, and draw the chart beside its file."""
    path = _growth_file(options)
    found = json.loads(path.read_text())
    path.with_suffix(".svg").write_text(growth.chart(found))
    for line in growth.markdown(found):
        print(line)


def _growth_file(options: dict[str, Any]) -> Path:
    path: Path = options["json"] or environment.PROJECT / "docs" / "bench-growth.json"
    return path


def _recording(console: Console, options: dict[str, Any]) -> None:
    try:
        with testbed.plain() as where, console.status("") as status:
            found = recording.compare(
                where.url,
                users=options["concurrency"],
                seconds=options["seconds"],
                rounds=options["rounds"],
                tell=status.update,
            )
    except (LoadFailed, StackError, OSError) as error:
        raise CommandError(str(error)) from error
    _show(console, "recording", found, options)


def _viewers(console: Console, options: dict[str, Any]) -> None:
    urls = ServerUrls.of_environment()
    try:
        with (
            private_folder() as folder,
            Stack(folder, urls) as stack,
            console.status("Starting the shop …") as status,
        ):
            stack.start("web", "room")
            rates, costs = viewers.compare(
                stack,
                viewers=options["viewers"],
                connections=options["concurrency"],
                seconds=options["seconds"],
                rounds=options["rounds"],
                tell=status.update,
            )
    except (StackError, OSError, RuntimeError) as error:
        raise CommandError(str(error)) from error
    _show(console, "viewers", rates, options)
    _show(console, "viewers", costs, {**options, "json": None}, "us of CPU per purchase")


def _observed(console: Console, options: dict[str, Any]) -> None:
    urls = ServerUrls.of_environment()
    try:
        with ExitStack() as cleanup:
            status = cleanup.enter_context(console.status("Starting the shops …"))
            stacks = {}
            for name, extra in observed.shops(cleanup.enter_context(observed.collector())).items():
                folder = cleanup.enter_context(private_folder())
                stacks[name] = cleanup.enter_context(Stack(folder, urls, extra=extra))
                stacks[name].start("web")
            sold = observed.compare(
                stacks,
                connections=options["concurrency"],
                seconds=options["seconds"],
                rounds=options["rounds"],
                tell=status.update,
            )
    except (StackError, OSError) as error:
        raise CommandError(str(error)) from error
    console.print(show.observed(sold))
    if observed.TRACES not in sold:
        console.print("Traces: not measured; install requirements/telemetry.txt.")


def _show(
    console: Console,
    what: str,
    found: recording.Recorded,
    options: dict[str, Any],
    unit: str = "purchases/s",
) -> None:
    for name, rates in (("on", found.on), ("off", found.off)):
        shown = ", ".join(f"{rate:,.0f}" for rate in rates)
        console.print(f"  {what} {name:<4} {shown} {unit}")
    console.print(f"  on/off         {found.ratio():.3f} (median of the rounds)")
    if options["json"]:
        document = {"on": found.on, "off": found.off, "ratio": found.ratio(), "machine": machine()}
        options["json"].write_text(json.dumps(document, indent=2) + "\n")


def _wanted(options: dict[str, Any]) -> list[Row]:
    found = rows(options["concurrency"], options["crowd"])
    if not options["only"]:
        return found
    names = {row.name for row in found}
    if unknown := set(options["only"]) - names:
        raise CommandError(
            f"no such row: {', '.join(sorted(unknown))}; choose from {sorted(names)}"
        )
    return [row for row in found if row.name in options["only"]]
