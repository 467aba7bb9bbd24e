"""`manage.py host_shop`: run another shop for Locust's page, until the input ends."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from development import StackError
from development.signals import end_on_signals
from lab.management.commands.prove import at_least_one
from lab.management.commands.prove_shop import WORKERS
from lab.stack.hosting import hosted
from loadtest.shops.setup import names


class Command(BaseCommand):
    """Run a shop, say where, and stop it when the input ends (`loadtest/ui/other_shops.py`)."""

    help = "Run another shop of this machine until the input ends. Locust's page uses it."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("shop", choices=names())
        parser.add_argument(
            "--workers", type=at_least_one, default=WORKERS, help=f"web processes ({WORKERS})"
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        end_on_signals()
        try:
            with hosted(options["shop"], workers=options["workers"], tell=self._say) as served:
                url, variables = served
                self._say({"url": url, "environment": dict(variables)})
                sys.stdin.read()
        except (StackError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error

    def _say(self, what: object) -> None:
        self.stdout.write(json.dumps(what))
        self.stdout.flush()
