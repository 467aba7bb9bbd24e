"""``manage.py audit``: do the books balance?"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from inventory.audit import Audit, audit
from shop.models import Sale
from shop.orders import mismatches


class Command(BaseCommand):
    """Compare every counter with the rows it was made from."""

    help = "Compare stock, ledger, reservations, limits and orders. Exit code 1 if they disagree."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--sale", type=int, metavar="ID", help="only this sale's item")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, **options: Any) -> None:  # noqa: D102
        items = None
        if options["sale"] is not None:
            items = list(Sale.objects.filter(pk=options["sale"]).values_list("item", flat=True))
            if not items:
                raise CommandError(f"There is no sale {options['sale']}.")
        found = audit(items)
        found.problems += mismatches(items)
        if options["json"]:
            self.stdout.write(json.dumps(_document(found), indent=2))
        else:
            _show(found)
        if not found.balanced:
            sys.exit(1)


def _document(found: Audit) -> dict[str, Any]:
    return {
        "balanced": found.balanced,
        "items": [asdict(book) for book in found.items],
        "problems": found.problems,
    }


def _show(found: Audit) -> None:
    console = Console()
    table = Table("Item", "Total", "Available", "Held", "Confirmed", "Ledger", "Oversold")
    for book in found.items:
        style = "red" if book.oversold else None
        table.add_row(*(str(figure) for figure in asdict(book).values()), style=style)
    console.print(table)
    for problem in found.problems:
        console.print(f"✗ {problem}", style="red", markup=False)
    if found.balanced:
        console.print("✓ The books balance.", style="green")
