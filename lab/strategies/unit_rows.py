"""``unit_rows``: a row for each unit on sale; a buyer takes one that nobody else has locked.

``SKIP LOCKED`` makes that part free of waiting: buyers who come together take different rows. What
remains one row for all is the item's, for the books must balance at every commit, and who sums them
up must see one state of them. So it is locked here too, only later: from the reservation to the
commit. A shop that does without (no total, no ledger, no "12 left") has no hot row any more, and
can no longer be asked whether it has oversold.

Rows are put out in shelves, by whoever finds too few, under the item's lock: what is restocked or
released joins the rows then. They are a ticket to the counter; the guard sells.
"""

from django.db import connection

from inventory.models import Item
from inventory.outcomes import Purchase
from inventory.selling import guard
from lab.models import StockUnit
from lab.strategies.retrying import Overtaken, Retrying

SHELF = 1000
"""Rows put out at once: one insert for that many purchases, and never a row for each of ten million
units."""

# ANY(ARRAY(...)) is evaluated once; IN (...) may be planned as a join that runs it again and then
# locks more rows than the limit.
CLAIM = """
DELETE FROM lab_stockunit WHERE id = ANY(ARRAY(
    SELECT id FROM lab_stockunit WHERE item_id = %s LIMIT %s FOR UPDATE SKIP LOCKED))
"""
PUT_OUT = "INSERT INTO lab_stockunit (item_id) SELECT %s FROM generate_series(1, %s)"


class UnitRows(Retrying):
    """Claim as many rows as units, put out more if there are too few, then go through the guard."""

    name = "unit_rows"
    summary = "one row a unit, claimed with SKIP LOCKED, then the guard"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        with connection.cursor() as cursor:
            cursor.execute(CLAIM, [purchase.item, purchase.quantity])
            claimed = cursor.rowcount
        if claimed < purchase.quantity:
            self._put_out(purchase, claimed)
        guard.take(purchase.item, purchase.quantity)

    def _put_out(self, purchase: Purchase, claimed: int) -> None:
        _refuse_if_short(purchase, _available(purchase.item))
        available = _available(purchase.item, lock=True)
        _refuse_if_short(purchase, available)
        # Rows claimed by purchases that have not committed are still counted; they belong to those.
        put_out = StockUnit.objects.filter(item=purchase.item).count() + claimed
        spare = available - put_out - (purchase.quantity - claimed)
        if spare < 0:
            raise Overtaken
        with connection.cursor() as cursor:
            cursor.execute(PUT_OUT, [purchase.item, min(SHELF, spare)])


def _available(item: int, *, lock: bool = False) -> int:
    rows = Item.objects.filter(pk=item).values_list("available", flat=True)
    available = (rows.select_for_update(no_key=True) if lock else rows).first()
    if available is None:
        raise guard.NoSuchItem(item)
    return available


def _refuse_if_short(purchase: Purchase, available: int) -> None:
    if available < purchase.quantity:
        raise guard.OutOfStock(available)
