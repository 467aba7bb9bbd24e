"""`manage.py buyer_data NAME`: hand out a buyer's data as JSON, or erase it."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from shop.accounts.models import User, normal
from shop.staff import buyers


class Command(BaseCommand):
    """Prints what the database knows of a buyer, or erases what identifies the buyer."""

    help = "Print a buyer's data as JSON, or erase it. The books and their totals stay."

    def add_arguments(self, parser: CommandParser) -> None:
        """Define the arguments."""
        parser.add_argument("name", help="the account's name")
        parser.add_argument(
            "--erase",
            action="store_true",
            help="erase name, addresses and what was stated with orders; it cannot be undone",
        )

    def handle(self, *args: Any, name: str, erase: bool, **options: Any) -> None:
        """Print or erase."""
        user = User.objects.filter(username=normal(name)).first()
        if user is None:
            raise CommandError(f"There is no account {name!r}.")
        if not erase:
            data = buyers.collect(user.pk)
            text = json.dumps(data, cls=DjangoJSONEncoder, indent=2, ensure_ascii=False)
            self.stdout.write(text)
            return
        try:
            buyers.erase(user.pk)
        except buyers.NotErasable as error:
            raise CommandError(f"Nothing was erased: {error}.") from error
        self.stdout.write(f"Account {user.pk} was erased. Its orders stay.")
