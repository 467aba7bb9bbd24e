"""`manage.py explore`: search a production lock for a schedule that breaks it."""

import sys
from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from lab.locks.simulator import cli


class Command(BaseCommand):
    """Passes its words on to `lab.locks.simulator`."""

    help = "Search a production lock: random schedules with crashes, pauses, lost replies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Understand what `python -m lab.locks.simulator explore` does."""
        cli.add_explore_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Search; exit 1 if a schedule broke the lock."""
        code = cli.run_explore(Namespace(**options))
        if code:
            sys.exit(code)
