"""`manage.py explore`: search for a schedule that breaks a production lock."""

import sys
from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from course.simulator import cli


class Command(BaseCommand):
    """Passes its arguments on to `course.simulator`."""

    help = "Search a production lock with random schedules: crashes, pauses and lost replies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of `python -m course.simulator explore`."""
        cli.add_explore_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Search; exit with 1 if a schedule broke the lock."""
        code = cli.run_explore(Namespace(**options))
        if code:
            sys.exit(code)
