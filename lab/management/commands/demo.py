"""`manage.py demo`, which `make demo` runs."""

from __future__ import annotations

import shlex
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from development import StackError
from lab.stack.demo import Demo

PROOF = "--buyers 2000 --stock 100"


class Command(BaseCommand):
    """Start the whole shop, prove it once, and run until Ctrl-C."""

    help = "Start the whole shop with embedded servers, prove it once, and run until Ctrl-C."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the proof."""
        parser.add_argument(
            "--proof",
            help=f'arguments of the proof (first start: "{PROOF}"; later starts: no proof)',
        )
        parser.add_argument("--no-proof", action="store_true", help="skip the proof")
        parser.add_argument(
            "--breakable",
            action="store_true",
            help="put proxies before the servers, for the faults that need them; sells more slowly",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal arrives; Ctrl-C is the normal end."""
        asked = options["proof"]
        proof = [] if options["no_proof"] else shlex.split(asked or PROOF)
        try:
            demo = Demo(Console(), breakable=options["breakable"])
            demo.run(proof, prove_again=asked is not None)
        except KeyboardInterrupt:
            return
        except StackError as error:
            raise CommandError(str(error)) from error
