"""Changes of a sale's terms, with the times at which they took effect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from loadtest.checker.snapshot import Terms
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time

LASTS = timedelta(hours=3)
"""Of a sale for a load test: less than a faulty clock is stepped by. Judged by that clock, the sale
would be over, or not begun."""


_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def change(
    sale: int,
    *,
    price: int | None = None,
    paused: bool | None = None,
    starts_in: float | None = None,
    ends_in: float | None = None,
) -> Terms:
    """Change a sale as the admin does: its row, and nothing that remembers it.

    Args:
        sale: its id.
        price: of one unit, in minor units.
        paused: whether nothing is sold.
        starts_in: seconds from now, by the database's clock; negative for the past.
        ends_in: likewise.

    Returns:
        The terms after it. If nothing is given, those there are.

    Raises:
        ValidationError: they do not fit each other; nothing was changed.
    """
    with transaction.atomic():
        # Two changes at once would each write the other's old values back.
        changed = Sale.objects.select_for_update(no_key=True).get(pk=sale)
        now = database_time()
        if price is not None:
            changed.price = price
        if paused is not None:
            changed.paused = paused
        if starts_in is not None:
            changed.starts_at = now + timedelta(seconds=starts_in)
        if ends_in is not None:
            changed.ends_at = now + timedelta(seconds=ends_in)
        if (price, paused, starts_in, ends_in) != (None, None, None, None):
            changed.full_clean()
            changed.save()
        asked = clock()
    return Terms(
        sale=str(sale),
        asked=asked,
        done=clock(),
        price=changed.price,
        starts_at=_microseconds(changed.starts_at),
        ends_at=_microseconds(changed.ends_at),
        paused=changed.paused,
    )


def clock() -> int:
    """Return the time of the database's clock at this moment, in microseconds since 1970."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return _microseconds(cursor.fetchone()[0])


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
