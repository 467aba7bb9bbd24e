"""``unguarded``: decrement in the database, but without a condition.

One step better than ``naive``: ``available = available - 1`` loses no update. But the check was
made earlier, on another read, so all buyers that checked at the same time decrement. A well-known
shop framework allocates stock this way (see docs/replacing.md). ``guard`` fixes it with one more
condition in the same statement.
"""

from django.db.models import F
from django.db.models.functions import Greatest

from inventory.models import Item
from inventory.outcomes import Purchase
from lab.models import UnenforcedItem
from lab.strategies.single import SinglePurchase, refuse_if_short, write_sale


class Unguarded(SinglePurchase):
    """Check, then decrement the current value."""

    name = "unguarded"
    safe = False
    summary = "decrement without a condition: oversells"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        mine = Item.objects.filter(pk=purchase.item)
        available = mine.values_list("available", flat=True).first()
        refuse_if_short(purchase, available)
        mine.update(
            # The table's constraint refuses negative stock; a shop without it would oversell.
            available=Greatest(F("available") - purchase.quantity, 0),
            version=F("version") + 1,
        )
        UnenforcedItem.add(purchase.item)  # otherwise the database refuses a commit that oversells
        write_sale(purchase)
