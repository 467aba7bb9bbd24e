"""`manage.py lesson [name]`: the locks that most people write first, and how each one breaks."""

import sys
from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from course import lesson_command


class Command(BaseCommand):
    """The command; `course.lesson_command` does the work."""

    help = "List the lock lessons, or break one and show its fix."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        lesson_command.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Show it; exit with 1 if a lesson did not break or its fix did not hold."""
        if code := lesson_command.run_lesson(Namespace(**options)):
            sys.exit(code)
