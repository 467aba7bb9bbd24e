"""What the buyers of one load-generating process share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from loadtest.finished import Report
from loadtest.history import Recorder
from loadtest.purchases import Sale
from loadtest.roles import OWN

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


class Own(NamedTuple):
    """Two sales that nobody else uses now; `name` is theirs in the history."""

    name: str
    sales: tuple[Sale, Sale]


class OwnSales:
    """The pairs of own sales of a load-generating process.

    Args:
        sales: of the run, by role.
    """

    def __init__(self, sales: Mapping[str, Sale]) -> None:
        self._free = [
            Own(f"{one}+{other}", (sales[one], sales[other]))
            for one, other in OWN
            if one in sales and other in sales
        ]
        self._lock = threading.Lock()

    @contextmanager
    def use(self) -> Iterator[Own | None]:
        """Have a pair for the time of the context; None if none is free."""
        with self._lock:
            own = self._free.pop(0) if self._free else None
        try:
            yield own
        finally:
            if own is not None:
                with self._lock:
                    self._free.append(own)


@dataclass(frozen=True, slots=True)
class Crowd:
    """The buyers of one process.

    Attributes:
        sales: of the run, by their roles.
        recorder: writes down every call; None: nothing is.
        take_token: returns the token of a new buyer, by the buyer's name.
        report: told of every call that is over.
        own: sales that are for one buyer at a time.
        known: the last orders of all buyers.
    """

    sales: Mapping[str, Sale]
    recorder: Recorder | None
    take_token: Callable[[str], str]
    report: Report = lambda _: None
    own: OwnSales = field(default_factory=lambda: OwnSales({}))
    known: KnownOrders = field(default_factory=KnownOrders)
