"""`manage.py explore`: search for a schedule that breaks a production lock."""

import sys
from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from course import explore_command


class Command(BaseCommand):
    """The command; `course.explore_command` does the work."""

    help = "Search a production lock with random schedules: crashes, pauses and lost replies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        explore_command.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Search; exit with 1 if a schedule broke the lock."""
        if code := explore_command.run_explore(Namespace(**options)):
            sys.exit(code)
