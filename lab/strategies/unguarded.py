"""``unguarded``: decrement in the database, but without a condition.

One step better than ``naive``: ``available = available - 1`` loses no update. But the check was
made before, on another read, so those who checked together all decrement. This is how a well-known
shop framework allocates stock (see docs/adopting.md). ``guard`` mends it with one more condition in
the same statement.
"""

from django.db.models import F
from django.db.models.functions import Greatest

from inventory.models import Item, StockMovement
from inventory.outcomes import Purchase
from inventory.selling import guard
from inventory.selling.strategies.single import SinglePurchase
from lab.models import UnenforcedItem


class Unguarded(SinglePurchase):
    """Check, then decrement whatever is there by now."""

    name = "unguarded"
    safe = False
    summary = "decrement without a condition: oversells"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        mine = Item.objects.filter(pk=purchase.item)
        available = mine.values_list("available", flat=True).first()
        if available is None:
            raise guard.NoSuchItem(purchase.item)
        if available < purchase.quantity:
            raise guard.OutOfStock(available)
        mine.update(
            # Below none the table's constraint would refuse; a shop without it goes on.
            available=Greatest(F("available") - purchase.quantity, 0),
            version=F("version") + 1,
        )
        UnenforcedItem.add(purchase.item)  # else the database would refuse the oversell
        StockMovement.objects.create(
            item_id=purchase.item, delta=-purchase.quantity, reason=StockMovement.Reason.SALE
        )
