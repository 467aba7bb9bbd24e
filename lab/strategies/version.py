"""``version``: optimistic locking. Read the row with its version; write only if it is unchanged.

Correct without any lock, and fast if buyers seldom contend. In a rush they always do: of all buyers
that read the same version one succeeds, and the others have worked for nothing.
"""

from django.db.models import F

from inventory.models import Item
from inventory.outcomes import Purchase
from lab.strategies.retrying import Overtaken, Retrying
from lab.strategies.single import refuse_if_short, write_sale


class Version(Retrying):
    """Compare and set the version; on a conflict, try again after a random pause."""

    name = "version"
    summary = "optimistic: compare-and-set on the row's version, tried again"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        row = Item.objects.filter(pk=purchase.item).values_list("available", "version").first()
        available, version = row or (None, 0)
        refuse_if_short(purchase, available)
        as_it_was_read = Item.objects.filter(pk=purchase.item, version=version)
        left = F("available") - purchase.quantity
        if not as_it_was_read.update(available=left, version=version + 1):
            raise Overtaken
        write_sale(purchase)
