"""The sales of a proof, and changes of their terms with the times at which they took effect."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.db import connection, transaction
from msgspec.structs import replace

from lab.strategies.choice import open_sale
from loadtest.checker.snapshot import Terms
from loadtest.roles import MAIN, SaleTerms
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time

if TYPE_CHECKING:
    from lab.proof.plan import Plan  # which needs psutil; the demo's image has none

LASTS = timedelta(hours=3)
"""Less than a faulty clock is stepped by: a sale judged by it would be over, or not begun."""


@dataclass(frozen=True, slots=True)
class OpenedSale:
    """A sale that was opened, and the terms that it has from then on."""

    sale: Sale
    terms: Terms

    @classmethod
    def of(cls, wanted: SaleTerms, starts_in: float) -> OpenedSale:
        """Open a sale that starts in so many seconds."""
        asked = clock()
        named = {**asdict(wanted), "hold": timedelta(seconds=wanted.hold)}
        sale = open_sale(**named, starts_in=timedelta(seconds=starts_in), lasts=LASTS)
        return cls(sale, replace(change(sale.pk), asked=asked))


def open_sales(plan: Plan) -> dict[str, OpenedSale]:
    """Open the sales of a plan: by role, the main one first."""
    gathers_in = plan.profile.gathers_in
    # The further ones start at once: no buyer looks at them before the main one opens.
    return {
        role: OpenedSale.of(wanted, gathers_in if role == MAIN else 0.0)
        for role, wanted in plan.sales.items()
    }


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
