"""``naive``: read, check, write. What is written first everywhere, and it oversells.

Two buyers read the same number, both find it large enough, and both write it back less one: one
decrement is lost, both have bought. Neither the check nor the transaction helps, for at READ
COMMITTED a read locks nothing. ``guard`` mends it.
"""

from inventory.models import Item, StockMovement
from inventory.outcomes import Purchase
from inventory.selling import guard
from inventory.selling.strategies.single import SinglePurchase
from lab.models import UnenforcedItem


class Naive(SinglePurchase):
    """Load the object, check in Python, save it."""

    name = "naive"
    safe = False
    summary = "read, check, write: oversells"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        item = Item.objects.filter(pk=purchase.item).first()
        if item is None:
            raise guard.NoSuchItem(purchase.item)
        if item.available < purchase.quantity:
            raise guard.OutOfStock(item.available)
        item.available -= purchase.quantity
        item.save(update_fields=["available"])
        UnenforcedItem.add(item.pk)  # else the database would refuse the commit that oversells
        StockMovement.objects.create(
            item=item, delta=-purchase.quantity, reason=StockMovement.Reason.SALE
        )
