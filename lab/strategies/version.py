"""``version``: optimistic locking. Read the row with its version; write only if it is unchanged.

Correct without any lock, and fast if buyers seldom contend. In a rush they always do: of all buyers
that read the same version one succeeds, and the others have worked for nothing.
"""

from inventory.models import Item, StockMovement
from inventory.outcomes import NoSuchItem, Purchase
from inventory.selling import guard
from lab.strategies.retrying import Overtaken, Retrying


class Version(Retrying):
    """Compare and set the version; on a conflict, try again after a random pause."""

    name = "version"
    summary = "optimistic: compare-and-set on the row's version, tried again"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        row = Item.objects.filter(pk=purchase.item).values_list("available", "version").first()
        if row is None:
            raise NoSuchItem(purchase.item)
        available, version = row
        if available < purchase.quantity:
            raise guard.OutOfStock(available)
        as_it_was_read = Item.objects.filter(pk=purchase.item, version=version)
        left = available - purchase.quantity
        if not as_it_was_read.update(available=left, version=version + 1):
            raise Overtaken
        StockMovement.objects.create(
            item_id=purchase.item, delta=-purchase.quantity, reason=StockMovement.Reason.SALE
        )
