"""`manage.py audit`: compare the books, the orders and the provider's ledger."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich import box
from rich.console import Console
from rich.table import Table

from shop.audit import Report, examine
from shop.background.repair import Failures, repair
from shop.catalogue.models import Sale


class Command(BaseCommand):
    """Run all comparisons of the audit."""

    help = (
        "Compare stock, ledger, reservations, limits, orders and payments with each other and with "
        "the payment provider, and list overdue work. Exit code 1 if there is a contradiction, or "
        "if a repair failed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--sale", type=int, metavar="ID", help="only this sale's item")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--repair",
            action="store_true",
            help="first do what is overdue: expired holds, the outbox, mails, payments",
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        items = None
        if options["sale"] is not None:
            items = list(Sale.objects.filter(pk=options["sale"]).values_list("item", flat=True))
            if not items:
                raise CommandError(f"There is no sale {options['sale']}.")
        repaired = []
        failures = Failures()
        if options["repair"]:
            for sentence in repair(failures):
                repaired.append(sentence)
                if not options["json"]:
                    self.stdout.write(f"• {sentence}")
        report = examine(items)
        if options["json"]:
            document = {"balanced": report.balanced, **asdict(report)}
            document |= {"repaired": repaired, "not_repaired": failures.sentences}
            self.stdout.write(json.dumps(document, indent=2))
        else:
            _show(report, failures.sentences)
        if failures.sentences or not report.balanced:
            sys.exit(1)


def _show(report: Report, not_repaired: Sequence[str] = ()) -> None:
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("Item", "Total", "Available", "Held", "Confirmed", "Ledger", "Oversold"):
        table.add_column(heading, justify="right", no_wrap=True)
    for book in report.items:
        style = "red" if book.oversold else None
        table.add_row(*(str(figure) for figure in asdict(book).values()), style=style)
    console.print(table)
    for sentence in not_repaired:
        console.print(f"✗ not repaired: {sentence}", style="red", markup=False)
    for problem in report.problems:
        console.print(f"✗ {problem}", style="red", markup=False)
    for sentence in report.overdue:
        console.print(f"! {sentence}", style="yellow", markup=False)
    for sentence in report.unchecked:
        console.print(f"? not checked: {sentence}", style="yellow", markup=False)
    if report.balanced:
        console.print("✓ The books balance.", style="green")
