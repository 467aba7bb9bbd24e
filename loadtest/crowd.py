"""What the buyers of one load-generating process share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from loadtest.finished import Report
from loadtest.full_shop import FullShop
from loadtest.history import Recorder
from loadtest.purchases import Sale

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


@dataclass(frozen=True, slots=True)
class Crowd:
    """The buyers of one process.

    Attributes:
        shop: that they come to.
        sales: of the run, by their roles.
        recorder: writes down every call; None: nothing is.
        take_token: returns the token of a new buyer, by the buyer's name.
        report: told of every call that is over.
        known: the last orders of all buyers.
    """

    shop: FullShop
    sales: Mapping[str, Sale]
    recorder: Recorder | None
    take_token: Callable[[str], str]
    report: Report = lambda _: None
    known: KnownOrders = field(default_factory=KnownOrders)
