"""`manage.py soak`: repeat proofs under random faults for hours."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.markdown import Markdown

from development.folder import alone
from development.signals import end_on_signals
from lab.management.commands.prove import at_least_zero, seed_of
from lab.proof.soak import STRATEGIES, markdown, soak
from lab.strategies import CLASSES


class Command(BaseCommand):
    """Repeat proofs under random faults."""

    help = (
        "Run one sale after another under random faults, each in a fresh shop and judged on its "
        "own. Repeating the command continues a stopped soak. A broken property does not stop it; "
        "that round's folder is kept. Exit code: 0 all rounds passed, 1 a property is broken, 2 a "
        "round could not be judged."
    )
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--minutes", type=at_least_zero, default=60.0, help="in all (60)")
        parser.add_argument("--seed", type=int, default=0, help="of all rounds; 0 draws one")
        parser.add_argument(
            "--folder", type=Path, default=Path(".data/soak"), help="state and summary (.data/soak)"
        )
        parser.add_argument(
            "--round", type=at_least_zero, default=4.0, metavar="M", help="minutes of a round (4)"
        )
        parser.add_argument(
            "--strategy",
            action="append",
            choices=list(CLASSES),
            help=f"strategies to draw from, the first most often ({', '.join(STRATEGIES)})",
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        folder, minutes = options["folder"], options["minutes"]
        of_load = min(options["round"], minutes)
        if not of_load:
            raise CommandError("--minutes and --round must be above 0.", returncode=2)
        end_on_signals()
        console = Console()
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / "soak.lock") as free:
            if not free:
                raise CommandError(f"A soak is running in {folder}.", returncode=2)
            console.print(
                f"Soaking for {minutes:g} min, in rounds of {of_load:g} min and their start and "
                f"verdict; summary: {folder / 'summary.md'}"
            )
            summary = soak(
                folder,
                lambda line: console.print(line, highlight=False),
                seed=seed_of(options),
                minutes=minutes,
                round_minutes=of_load,
                strategies=options["strategy"] or STRATEGIES,
            )
        console.print(Markdown(markdown(summary)))
        verdicts = summary["verdicts"]
        sys.exit(1 if verdicts["fail"] else 2 if verdicts["unknown"] or not verdicts["pass"] else 0)
