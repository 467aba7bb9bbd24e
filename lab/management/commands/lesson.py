"""`manage.py lesson [name]`: the locks people write first, and how each of them breaks."""

import sys
from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from lab.locks.simulator import cli


class Command(BaseCommand):
    """Passes its words on to `lab.locks.simulator`."""

    help = "List the lock lessons, or break one and show what mends it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Understand what `python -m lab.locks.simulator lesson` does."""
        cli.add_lesson_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Show it; exit 1 if a lesson did not break, or was not mended."""
        code = cli.run_lesson(Namespace(**options))
        if code:
            sys.exit(code)
