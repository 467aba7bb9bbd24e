"""The buyers of a sold-out item.

A repeated key must still get its order after the item has sold out. While an item stays sold out,
no new buyer can reserve it, so the set of its buyers is read once each time that it runs out. All
other buyers are refused without a query.
"""

from __future__ import annotations

from collections import OrderedDict

from inventory.models import Reservation
from inventory.outcomes import Level

MAX_HOLDERS = 100_000
"""Buyers remembered per item (about 8 MB); with more, refusals query the database."""

MAX_ITEMS = 64
"""Sold-out items remembered per process."""


class BuyersOfItem:
    """Remembers, for each sold-out item, the buyers with a reservation of it."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, frozenset[int] | None]] = OrderedDict()

    def of(self, item: int, level: Level) -> frozenset[int] | None:
        """Return the buyers with a reservation, released ones included; None if too many.

        Args:
            item: id of the item.
            level: the level, zero, at which the item was seen before this call: the read then
                includes every reservation made until that change.
        """
        version, buyers = self._known.get(item, (None, None))
        if version != level.version:
            buyers = self._read(item)
            self._known[item] = (level.version, buyers)
            while len(self._known) > MAX_ITEMS:
                self._known.popitem(last=False)
        return buyers

    @staticmethod
    def _read(item: int) -> frozenset[int] | None:
        buyers = Reservation.objects.filter(item=item).values_list("buyer", flat=True)
        found = frozenset(buyers[: MAX_HOLDERS + 1])
        return None if len(found) > MAX_HOLDERS else found
