"""`manage.py bench_locks`: the locks beside other libraries'."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from lab.bench.locks import cli


class Command(BaseCommand):
    """Passes its words on to `lab.bench.locks`."""

    help = "Measure the Redis lock beside redis-py's, python-redis-lock, pottery and portalocker."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Understand what `python -m lab.bench.locks` does."""
        cli.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure and report."""
        cli.run(Namespace(**options))
