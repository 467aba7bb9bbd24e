"""``unit_rows``: one row per unit on sale; a buyer takes a row that no other buyer has locked.

``SKIP LOCKED`` avoids waiting there: concurrent buyers take different rows. They still share the
item's row, because the books must balance at every commit and an audit must see one consistent
state. So this strategy locks the item's row too, but later: from the reservation to the commit. A
shop without a total and a ledger has no hot row, but cannot tell whether it has oversold.

A purchase that finds too few rows adds a batch of them under the item's lock, including restocked
and released units. The rows only limit admission; the guard sells.
"""

from django.db import connection

from inventory.models import Item
from inventory.outcomes import Purchase
from inventory.selling import guard
from lab.models import StockUnit
from lab.strategies.retrying import Overtaken, Retrying
from lab.strategies.single import refuse_if_short

SHELF = 1000
"""Rows added per batch: one insert for that many purchases, and never ten million rows at once."""

# ANY(ARRAY(...)) is evaluated once; IN (...) may become a join that runs the subquery again and
# locks more rows than the limit.
CLAIM = """
DELETE FROM lab_stockunit WHERE id = ANY(ARRAY(
    SELECT id FROM lab_stockunit WHERE item_id = %s LIMIT %s FOR UPDATE SKIP LOCKED))
"""
PUT_OUT = "INSERT INTO lab_stockunit (item_id) SELECT %s FROM generate_series(1, %s)"


class UnitRows(Retrying):
    """Claim one row per unit, add rows if there are too few, then go through the guard."""

    name = "unit_rows"
    summary = "one row per unit, claimed with SKIP LOCKED, then the guard"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        with connection.cursor() as cursor:
            cursor.execute(CLAIM, [purchase.item, purchase.quantity])
            claimed = cursor.rowcount
        if claimed < purchase.quantity:
            self._put_out(purchase, claimed)
        guard.take(purchase.item, purchase.quantity)

    def _put_out(self, purchase: Purchase, claimed: int) -> None:
        items = Item.objects.filter(pk=purchase.item).values_list("available", flat=True)
        refuse_if_short(purchase, items.first())
        available = items.select_for_update(no_key=True).get()
        refuse_if_short(purchase, available)
        # The count includes rows claimed by uncommitted purchases; they belong to those purchases.
        put_out = StockUnit.objects.filter(item=purchase.item).count() + claimed
        spare = available - put_out - (purchase.quantity - claimed)
        if spare < 0:
            raise Overtaken
        with connection.cursor() as cursor:
            cursor.execute(PUT_OUT, [purchase.item, min(SHELF, spare)])
