"""`manage.py after_restore`: skip the ids of lost rows, and give the database a new identity."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from shop.identity import renew

SKIP, MOST = 1_000_000, 10**12

# A sequence that was never used has no last value.
ADVANCE = """
SELECT count(setval(format('%%I.%%I', schemaname, sequencename)::regclass,
                    COALESCE(last_value, start_value) + %(skip)s))
FROM pg_sequences WHERE schemaname = current_schema()
"""


class Command(BaseCommand):
    """Advance all sequences and renew the identity, after a restore to an earlier point.

    The rows written after that point are lost, but others still know their ids: the payment
    provider (an idempotency key names the order), buyers (a token names the buyer), Celery's queue
    and mails. A new row with such an id would be taken for the lost one. The new identity is part
    of what is sent from now on (`shop.identity`), so that it differs also if too few are skipped.
    """

    help = "After a restore to an earlier point: give out no id again that a lost row had."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument(
            "--skip",
            type=int,
            default=SKIP,
            help=f"ids to skip: more than were given out since that point ({SKIP})",
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        if not 1 <= options["skip"] <= MOST:
            raise CommandError(f"--skip must be from 1 to {MOST}.")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(ADVANCE, {"skip": options["skip"]})
            [(sequences,)] = cursor.fetchall()
            identity = renew()
        self.stdout.write(f"{sequences} sequences continue {options['skip']} ids later.")
        self.stdout.write(f"The database has a new identity: {identity}.")
