"""The orders that buyers of a run have got, for those who try to see what is not theirs."""

from __future__ import annotations

from collections import deque
from random import Random

# The last ones; enough to choose from, and the same memory in a run of hours.
KEPT = 100


class KnownOrders:
    """The last orders of all buyers of one load-generating process."""

    def __init__(self) -> None:
        self._orders: deque[tuple[str, str]] = deque(maxlen=KEPT)

    def add(self, buyer: str, order: str) -> None:
        """Note that a buyer got an order."""
        if (buyer, order) not in self._orders:
            self._orders.append((buyer, order))

    def of_others(self, buyer: str, random: Random, most: int) -> list[str]:
        """Up to so many orders of other buyers, drawn at random."""
        others = [order for owner, order in self._orders if owner != buyer]
        return random.sample(others, min(most, len(others)))

    def is_of(self, buyer: str, order: str) -> bool:
        """Whether a buyer is known to have got an order."""
        return (buyer, order) in self._orders
