"""``buckets``: the stock split over several rows, so that buyers of one item meet less often.

Each buyer starts at a bucket of their own and takes from the first that has enough. Only when none
has, all are locked, in order, and what is left is dealt out anew, with whatever was restocked or
released meanwhile: so nobody is told "sold out" while the last units lie scattered, which is the
usual flaw of this scheme.

The item's row stays one for all, since the books must balance at every commit (see ``unit_rows``):
the buckets spread the wait in front of it and cannot take it away.
"""

from django.db import connection
from django.db.models import F

from inventory.models import Item
from inventory.outcomes import Purchase
from inventory.selling import guard
from lab.models import StockBucket
from lab.strategies.retrying import Overtaken, Retrying

BUCKETS = 8
"""Rows an item. More means fewer meetings, and more rows to lock before "sold out"."""

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
    """Take from one bucket, or deal out anew what is left of all, then go through the guard."""

    name = "buckets"
    summary = "stock split over eight rows, all probed before sold out, then the guard"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        enough = StockBucket.objects.filter(item=purchase.item, available__gte=purchase.quantity)
        numbers = list(enough.values_list("number", flat=True))
        if numbers:
            mine = min(numbers, key=lambda number: (number - purchase.buyer) % BUCKETS)
            # The condition again, for somebody may have been there since. Then start anew, and not
            # with the next one: an UPDATE that has waited for a row keeps it locked even where the
            # condition does not hold any more, and two locked in any order may be a circle.
            left = F("available") - purchase.quantity
            if not enough.filter(number=mine).update(available=left):
                raise Overtaken
        else:
            self._take_from_all(purchase)
        guard.take(purchase.item, purchase.quantity)

    def _take_from_all(self, purchase: Purchase) -> None:
        items = Item.objects.filter(pk=purchase.item).values_list("available", flat=True)
        _refuse_if_short(purchase, items.first())
        # Buckets before the item, and in order: whoever has one waits for the item only, whoever
        # wants all waits for those, and so nobody waits in a circle.
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
        raise guard.NoSuchItem(purchase.item)
    if available < purchase.quantity:
        raise guard.OutOfStock(available)
