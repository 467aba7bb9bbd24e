"""``manage.py mutants``: plant bugs one at a time and see what finds them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from lab.management.commands.prove import at_least_one
from lab.mutants import report
from lab.mutants.catalogue import Mutant, NotApplicable, choose, load, sample
from lab.mutants.results import Results, Way
from lab.mutants.run import ControlFailed, Plan, Runner
from lab.stack.errors import StackError
from lab.stack.signals import end_on_signals


def names(text: str) -> list[str]:
    """Read a list that is separated by commas."""
    return [part for part in text.split(",") if part]


class Command(BaseCommand):
    """Measure what the tests and the proof find."""

    help = (
        "Plant the bugs of lab/mutants/catalogue one at a time in a private copy of the tracked "
        "files, and see whether the tests and a short proof find them. Without --tests, --wide and "
        "--proof, only write the report. Exit code: 0 the tests found what they should, 1 they "
        "missed something, 2 a run without any bug failed."
    )
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--area", type=names, default=[], metavar="A,B", help="only these")
        parser.add_argument("--names", type=names, default=[], metavar="A,B", help="only these")
        parser.add_argument("--tests", action="store_true", help="run the subject's own tests")
        parser.add_argument(
            "--wide", action="store_true", help="run the whole package's on what those missed"
        )
        parser.add_argument("--proof", action="store_true", help="run a short proof")
        parser.add_argument("--jobs", type=at_least_one, default=1, help="mutants at a time (1)")
        parser.add_argument("--sample", type=at_least_one, help="only so many")
        parser.add_argument("--seed", type=int, default=0, help="which sample (0)")
        parser.add_argument("--again", action="store_true", help="also those with a result")
        parser.add_argument(
            "--missed", action="store_true", help="only those that nothing has found so far"
        )
        parser.add_argument(
            "--results",
            type=Path,
            default=Path("docs/mutants.jsonl"),
            help="where results are kept, with the report beside them (docs/mutants.jsonl)",
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        end_on_signals()
        console = Console(highlight=False, soft_wrap=True)
        catalogue = load()
        results = Results(options["results"])
        chosen = _chosen(catalogue, options)
        ways: list[Way] = [way for way in ("tests", "wide", "proof") if options[way]]
        plan = Plan(tuple(ways), options["jobs"], options["again"], options["missed"])
        try:
            Runner(plan, results, lambda line: console.print(line, markup=False)).run(chosen)
        except ControlFailed as failed:
            console.print(f"[red]{failed}[/]")
            sys.exit(2)
        except (StackError, NotApplicable) as error:
            raise CommandError(str(error)) from error
        finally:
            results.tidy()
            page = options["results"].with_suffix(".md")
            report.write(page, catalogue, results)
        missed = report.missed(chosen, results) if options["tests"] else []
        console.print(f"Report: {page}")
        if missed:
            console.print(f"[red]The tests missed {', '.join(each.name for each in missed)}.[/]")
        sys.exit(1 if missed else 0)


def _chosen(catalogue: tuple[Mutant, ...], options: dict[str, Any]) -> list[Mutant]:
    try:
        chosen = choose(catalogue, areas=options["area"], names=options["names"])
    except ValueError as error:
        raise CommandError(str(error)) from error
    if not options["sample"]:
        return chosen
    if options["proof"]:
        chosen = [each for each in chosen if not each.hidden]
    return sample(chosen, options["sample"], options["seed"])
