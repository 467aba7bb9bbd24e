"""``naive``: the read-check-write code that most people write first. It oversells.

Two buyers read the same number, both find it large enough, and both write it back less one: one
decrement is lost, and both have bought. Neither the check nor the transaction helps, because at
READ COMMITTED a read locks nothing. ``guard`` fixes it.
"""

from inventory.models import Item
from inventory.outcomes import NoSuchItem, Purchase
from inventory.selling import guard
from lab.models import UnenforcedItem
from lab.strategies.single import SinglePurchase, write_sale


class Naive(SinglePurchase):
    """Load the object, check it in Python, save it."""

    name = "naive"
    safe = False
    summary = "read, check, write: oversells"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        item = Item.objects.filter(pk=purchase.item).first()
        if item is None:
            raise NoSuchItem(purchase.item)
        if item.available < purchase.quantity:
            raise guard.OutOfStock(item.available)
        item.available -= purchase.quantity
        item.save(update_fields=["available"])
        UnenforcedItem.add(item.pk)  # otherwise the database refuses a commit that oversells
        write_sale(purchase)
