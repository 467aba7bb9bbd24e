"""Who holds reservations of a sold-out item.

A sold-out item must still answer a repeated key with the order it once got. While it stays sold
out nobody new can hold a reservation, so the set of buyers who do is read once for each time the
item runs out; everybody else may be refused without asking the database.
"""

from __future__ import annotations

from collections import OrderedDict

from inventory.models import Reservation
from inventory.outcomes import Level

MOST_HOLDERS = 100_000
"""An item with more buyers is not remembered (about 8 MB); its refusals ask the database."""

MOST_ITEMS = 64
"""Sold-out items remembered by a process at once."""


class BuyersOfItem:
    """Remembers, for each sold-out item, the buyers with a reservation of it."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, frozenset[int] | None]] = OrderedDict()

    def of(self, item: int, level: Level) -> frozenset[int] | None:
        """Buyers who hold a reservation, released ones included; None if there are too many.

        Args:
            item: id of the item.
            level: the level, zero, at which it was seen. It must have been seen before this
                call: what is read now then includes every reservation made until that change.
        """
        version, holders = self._known.get(item, (None, None))
        if version != level.version:
            holders = self._read(item)
            self._known[item] = (level.version, holders)
            while len(self._known) > MOST_ITEMS:
                self._known.popitem(last=False)
        return holders

    @staticmethod
    def _read(item: int) -> frozenset[int] | None:
        buyers = Reservation.objects.filter(item=item).values_list("buyer", flat=True)
        found = frozenset(buyers[: MOST_HOLDERS + 1])
        return None if len(found) > MOST_HOLDERS else found
