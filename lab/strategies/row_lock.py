"""``row_lock``: ``SELECT … FOR UPDATE``, then read-check-write under it.

Correct as long as every writer of the row locks it first. Buyers queue for the row with a
connection each.
"""

from django.db.models import F

from inventory.models import Item
from inventory.outcomes import NoSuchItem, Purchase
from inventory.selling import guard
from lab.strategies.single import SinglePurchase, write_sale


class RowLock(SinglePurchase):
    """Lock the row, then run the code of ``naive``."""

    name = "row_lock"
    summary = "SELECT … FOR UPDATE, then save"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        item = Item.objects.select_for_update().filter(pk=purchase.item).first()
        if item is None:
            raise NoSuchItem(purchase.item)
        if item.available < purchase.quantity:
            raise guard.OutOfStock(item.available)
        item.available -= purchase.quantity
        item.version = F("version") + 1
        item.save(update_fields=["available", "version"])
        write_sale(purchase)
