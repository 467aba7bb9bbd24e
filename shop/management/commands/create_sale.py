"""`manage.py create_sale`: create a sale that is open now."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DataError

from shop.catalogue.sales import open_sale
from shop.money import default_currency, to_minor


def amount(text: str) -> Decimal:
    """Parse a price.

    Raises:
        ValueError: it is not a number.
    """
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error


class Command(BaseCommand):
    """Create a sale."""

    help = "Create a sale of the phone that is open now, and print its ids."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--stock", type=int, default=100, help="units (100)")
        parser.add_argument("--limit", type=int, default=1, help="units per buyer (1)")
        parser.add_argument(
            "--price", type=amount, default=Decimal(999), help="of a unit; 999 is 999.00 (999)"
        )
        parser.add_argument(
            "--starts-in", type=float, default=0, metavar="SECONDS", help="delay of the opening (0)"
        )
        parser.add_argument(
            "--hold", type=float, default=900, metavar="SECONDS", help="time to pay (900)"
        )
        parser.add_argument("--unlisted", action="store_true", help="leave it out of the home page")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, **options: Any) -> None:  # noqa: D102
        if options["stock"] < 0:
            raise CommandError("--stock cannot be negative")
        try:
            price = to_minor(options["price"], default_currency())
        except (OverflowError, ValueError) as error:
            raise CommandError(f"--price: {error}") from error
        try:
            sale = open_sale(
                stock=options["stock"],
                price=price,
                limit=options["limit"],
                starts_in=timedelta(seconds=options["starts_in"]),
                hold=timedelta(seconds=options["hold"]),
                listed=not options["unlisted"],
            )
        except ValidationError as error:
            texts = {name: " ".join(each) for name, each in error.message_dict.items()}
            wrong = [texts.pop(NON_FIELD_ERRORS)] if NON_FIELD_ERRORS in texts else []
            wrong += [f"--{name}: {text}" for name, text in texts.items()]
            raise CommandError("; ".join(wrong)) from error
        except (DataError, OverflowError, ValueError) as error:
            raise CommandError(f"--stock, --starts-in or --hold: {error}") from error
        if options["json"]:
            self.stdout.write(json.dumps({"sale": sale.pk, "item": sale.item_id}))
        else:
            self.stdout.write(f"Sale {sale.pk} of item {sale.item_id}: {options['stock']} units.")
