"""`manage.py bench_locks`: compare the Redis lock with those of other libraries."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from lab.bench.locks import cli


class Command(BaseCommand):
    """Passes its arguments on to `lab.bench.locks`."""

    help = "Compare the Redis lock with redis-py, python-redis-lock, pottery and portalocker."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of `python -m lab.bench.locks`."""
        cli.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure and report."""
        cli.run(Namespace(**options))
