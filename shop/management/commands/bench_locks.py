"""`manage.py bench_locks`: the locks beside other libraries'."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from locking.bench import cli


class Command(BaseCommand):
    """Passes its words on to `locking.bench`."""

    help = "Measure the Redis lock beside redis-py's, python-redis-lock, pottery and portalocker."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Understand what `python -m locking.bench` does."""
        cli.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure and report."""
        cli.run(Namespace(**options))
