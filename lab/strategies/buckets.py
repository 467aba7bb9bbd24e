"""``buckets``: the stock split over several rows, so that buyers of one item contend less often.

Each buyer starts at their own bucket and takes from the first that has enough. If none has, the
purchase locks all buckets in order and redistributes the remaining units, including those restocked
or released meanwhile. So no buyer is told "sold out" while the last units are scattered, which is
the usual flaw of this scheme.

All buyers still share the item's row, because the books must balance at every commit (see
``unit_rows``); the buckets spread the wait before it but cannot remove it.
"""

from django.db import connection
from django.db.models import F

from inventory.models import Item
from inventory.outcomes import NoSuchItem, Purchase
from inventory.selling import guard
from lab.models import StockBucket
from lab.strategies.retrying import Overtaken, Retrying

BUCKETS = 8
"""Rows per item. More rows mean less contention, but more locks before "sold out"."""

MAKE = """
INSERT INTO lab_stockbucket (item_id, number, available)
SELECT %s, number, 0 FROM generate_series(0, %s - 1) AS number ON CONFLICT DO NOTHING
"""
DEAL_OUT = """
UPDATE lab_stockbucket
SET available = %(units)s / %(buckets)s
              + CASE WHEN number < %(units)s %% %(buckets)s THEN 1 ELSE 0 END
WHERE item_id = %(item)s
"""


class Buckets(Retrying):
    """Take from one bucket or redistribute all of them, then go through the guard."""

    name = "buckets"
    summary = "stock split over eight rows, all probed before sold out, then the guard"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        enough = StockBucket.objects.filter(item=purchase.item, available__gte=purchase.quantity)
        numbers = list(enough.values_list("number", flat=True))
        if numbers:
            mine = min(numbers, key=lambda number: (number - purchase.buyer) % BUCKETS)
            # Check again: another buyer may have taken the units. Then roll back instead of trying
            # the next bucket: an UPDATE keeps a row locked even if its condition fails, and locks
            # taken in any order can deadlock.
            left = F("available") - purchase.quantity
            if not enough.filter(number=mine).update(available=left):
                raise Overtaken
        else:
            self._take_from_all(purchase)
        guard.take(purchase.item, purchase.quantity)

    def _take_from_all(self, purchase: Purchase) -> None:
        items = Item.objects.filter(pk=purchase.item).values_list("available", flat=True)
        _refuse_if_short(purchase, items.first())
        # Lock the buckets in order and before the item: the holder of one bucket waits only for
        # the item, and this purchase waits for the buckets, so no cycle of waits can form.
        with connection.cursor() as cursor:
            cursor.execute(MAKE, [purchase.item, BUCKETS])
        locked = StockBucket.objects.select_for_update().filter(item=purchase.item)
        list(locked.order_by("number"))
        available = items.select_for_update(no_key=True).get()
        _refuse_if_short(purchase, available)
        left = {
            "item": purchase.item,
            "units": available - purchase.quantity,
            "buckets": BUCKETS,
        }
        with connection.cursor() as cursor:
            cursor.execute(DEAL_OUT, left)


def _refuse_if_short(purchase: Purchase, available: int | None) -> None:
    if available is None:
        raise NoSuchItem(purchase.item)
    if available < purchase.quantity:
        raise guard.OutOfStock(available)
