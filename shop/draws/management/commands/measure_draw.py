"""`manage.py measure_draw`: how long a large draw takes; only in the demo, as it makes buyers.

SHOP_DEMO=1 python manage.py measure_draw --entries 1000000 --winners 1000
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from resource import RUSAGE_SELF, getrusage
from typing import Any, TypeVar
from uuid import uuid4

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.models.functions import Now

from shop import environment
from shop.catalogue.models import Sale
from shop.draws import drawing
from shop.draws.api import public_file
from shop.draws.models import Draw, Place
from shop.draws.verify import Checked, after_entry, mark_of

T = TypeVar("T")


class Command(BaseCommand):
    """Measures each step of a draw."""

    help = "Measure a draw of many entries, in the demo."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the size."""
        parser.add_argument("--entries", type=int, default=1_000_000)
        parser.add_argument("--winners", type=int, default=1_000)

    def handle(self, *args: Any, entries: int, winners: int, **options: Any) -> None:
        """Make buyers and their entries, then draw and verify.

        Raises:
            CommandError: this is not the demo.
        """
        if not environment.switch("SHOP_DEMO"):
            raise CommandError("It makes buyers without end: only with SHOP_DEMO=1.")
        draw = drawing.open_draw(
            stock=winners, price=100, limit=1, lasts=timedelta(hours=1), listed=False
        )
        self._timed(f"{entries} entries made", lambda: fill(draw, entries))
        Sale.objects.filter(pk=draw.pk).update(ends_at=Now())
        drawing.close(draw)
        draw.refresh_from_db()
        drawing.reveal(draw)
        draw.refresh_from_db()
        self._timed("places computed", lambda: drawing.place(draw))
        self._timed(f"{winners} winners reserved", drawing.advance)
        draw.refresh_from_db()
        checked = self._timed("public file written and verified", lambda: check(draw))
        order = self._timed("order computed in Python", checked.order)
        places = Place.objects.filter(draw=draw).order_by("place")
        found = places.values_list("entry__number", flat=True).iterator()
        if draw.offered != winners or any(
            one != other for one, other in zip(order, found, strict=True)
        ):
            raise CommandError("The database's places are not those of the verifier.")
        self.stdout.write(f"all {entries} places agree")

    def _timed(self, what: str, step: Callable[[], T]) -> T:
        began = time.perf_counter()
        result = step()
        seconds = time.perf_counter() - began
        memory = getrusage(RUSAGE_SELF).ru_maxrss // 1024
        self.stdout.write(f"{what}: {seconds:.1f} s (this process so far: {memory} MiB)")
        return result


def fill(draw: Draw, entries: int) -> None:
    """Enter that many new buyers, in the way of a restore: without the queue."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO accounts_user (username, password, email, first_name, last_name,
                                       is_superuser, is_staff, is_active, date_joined)
            SELECT %s || number, '!', '', '', '', false, false, true, now()
            FROM generate_series(1, %s) AS number RETURNING id
            """,
            [f"m{uuid4().hex[:8]}-", entries],
        )
        first = min(user for (user,) in cursor)
        columns = "draw_id, number, buyer_id, secret, mark, hash, created"
        head = bytes(draw.head)
        with cursor.copy(f"COPY draws_entry ({columns}) FROM STDIN") as copy:
            for row in lines(draw, first, entries):
                copy.write_row(row)
                head = row[5]
    Draw.objects.filter(pk=draw.pk).update(lines=entries, head=head)


def lines(draw: Draw, first: int, entries: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of entries of buyers with consecutive ids."""
    head = bytes(draw.head)
    for number in range(1, entries + 1):
        buyer, secret = first + number - 1, secrets.token_bytes(32)
        mark = mark_of(secret, draw.pk, buyer)
        head = after_entry(head, number, mark)
        yield draw.pk, number, buyer, secret, mark, head, draw.announced


def check(draw: Draw) -> Checked:
    """Verify the draw's public file."""
    draw.sale = Sale.objects.get(pk=draw.pk)
    return Checked(public_file(draw))
