"""`manage.py prove_shop`: install a real shop, start it, rush it, judge it, stop it."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from development import StackError
from development.signals import end_on_signals
from lab.management.commands.prove import at_least_one
from lab.stack.hosting import hosted
from loadtest.address import RunImpossible
from loadtest.files import RunFiles, new_file
from loadtest.history import OK
from loadtest.rush import RushResult, rush_shop
from loadtest.rush.plan import SCENES, size_of
from loadtest.rush.result import Terminal
from loadtest.rush.verdict import lines, write_rush
from loadtest.shop import Level, Sizes
from loadtest.shops import load
from loadtest.shops.setup import names, setup_of

WORKERS = 4


class Command(BaseCommand):
    """Install a real shop on this machine, rush it and judge it by its own books."""

    help = (
        "Install a real shop on this machine, rush it and judge it by its own books. Exit code: "
        "0 it holds, 1 a property is broken, 2 it could not be judged (make ends with 2 for both)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("shop", choices=names())
        proposed = "as the adapter proposes, or"
        parser.add_argument("--stock", type=at_least_one, help=f"units ({proposed} {Sizes.stock})")
        parser.add_argument(
            "--buyers", type=at_least_one, help=f"of each round ({proposed} {Sizes.buyers})"
        )
        parser.add_argument("--rounds", type=at_least_one, help=f"({proposed} {Sizes.rounds})")
        parser.add_argument(
            "--workers", type=at_least_one, default=WORKERS, help=f"web processes ({WORKERS})"
        )
        parser.add_argument("--row", default="", help="one of the shop's documented settings")
        parser.add_argument(
            "--level",
            action="append",
            choices=[scene.value for scene in SCENES],
            help="what buyers fight for, of what the shop offers; repeatable (all)",
        )
        parser.add_argument("--folder", type=Path, help="keep the histories and the books here")
        parser.add_argument("--json", type=new_file, help="write the result here")

    def handle(self, **options: Any) -> None:  # noqa: D102
        name, row = options["shop"], options["row"]
        if row and row not in setup_of(name).rows:
            known = ", ".join(setup_of(name).rows) or "none"
            raise CommandError(f"{name} has no row {row!r}; its rows: {known}", returncode=2)
        end_on_signals()
        try:
            result = self._rush(name, row, options)
        except (StackError, RunImpossible, OSError) as error:
            raise CommandError(f"could not be judged: {error}", returncode=2) from error
        for line in lines(result):
            self.stdout.write(line)
        if rates := sold_per_second(result):
            least_and_most = dict.fromkeys(f"{rate:.3g}" for rate in (min(rates), max(rates)))
            self.stdout.write(f"Sold per second: {' to '.join(least_and_most)}")
        if options["folder"]:
            files = RunFiles(options["folder"])
            write_rush(result, files)
            self.stdout.write(f"Report: {files.report}")
        if options["json"]:
            options["json"].write_text(json.dumps(result.to_json(), indent=2) + "\n")
        sys.exit(result.exit_code)

    def _rush(self, name: str, row: str, options: dict[str, Any]) -> RushResult:
        terminal = Terminal(sys.stderr)
        doing = terminal.observer.within(lambda: name)
        with hosted(name, workers=options["workers"], row=row, tell=doing.step) as served:
            url, variables = served
            os.environ.update(variables)
            shop = load(name, url)
            stock, buyers, rounds = size_of(
                shop, options["stock"], options["buyers"], options["rounds"]
            )
            options |= {"stock": stock, "buyers": buyers, "rounds": rounds}
            result = rush_shop(
                shop,
                stock,
                buyers,
                rounds,
                host=url,
                folder=options["folder"],
                levels=[Level(level) for level in options["level"] or SCENES],
                repeat=_again(name, row, options),
                observer=doing,
            )
            doing.step("stopping its servers")
        terminal.clear()
        return result


def sold_per_second(result: RushResult) -> list[float]:
    """Return, of each round of stock that sold, the purchases accepted per second."""
    rates = []
    for played in result.rounds:
        if played.plan.scene is not Level.STOCK or played.plan.enough:
            continue
        sold = [call for call in played.calls if call.op == "order" and call.outcome == OK]
        if sold:
            begin = min(call.start for call in sold)
            rates.append(len(sold) / (max(call.end for call in sold) - begin) * 1e9)
    return rates


def _again(name: str, row: str, options: dict[str, Any]) -> str:
    size = " ".join(f"--{key} {options[key]}" for key in ("stock", "buyers", "rounds", "workers"))
    size += f" --row {row}" if row else ""
    size += "".join(f" --level {level}" for level in options["level"] or ())
    return f'make prove-shop SHOP={name} ARGS="{size}"'
