"""`manage.py load_test_accounts`: accounts for a load test of this shop, and their tokens."""

from argparse import ArgumentParser
from typing import Any
from uuid import uuid4

from django.contrib.auth.hashers import make_password
from django.core.management.base import BaseCommand, CommandError

from shop.accounts import tokens
from shop.accounts.models import User

PREFIX = "load-test-"
"""How their names begin."""

AT_ONCE = 5000
"""Accounts that are written by one statement."""


class Command(BaseCommand):
    """Create accounts for a load test, or deactivate them."""

    help = (
        "Create accounts without passwords and addresses, and print a token of each, valid for a "
        "day. Keep the tokens secret: anybody who has one can buy in the account's name."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--count", type=int, default=500, help="accounts (500)")
        parser.add_argument(
            "--deactivate",
            action="store_true",
            help="deactivate all accounts of load tests instead, which ends their tokens",
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        if options["deactivate"]:
            ended = User.objects.filter(username__startswith=PREFIX, is_active=True)
            self.stdout.write(f"{ended.update(is_active=False)} accounts deactivated")
            return
        if options["count"] < 1:
            raise CommandError("--count must be at least 1")
        group = uuid4().hex[:12]
        made = User.objects.bulk_create(
            [
                User(username=f"{PREFIX}{group}-{number}", password=make_password(None))
                for number in range(options["count"])
            ],
            batch_size=AT_ONCE,
        )
        for user in made:
            self.stdout.write(tokens.issue(user.pk))
