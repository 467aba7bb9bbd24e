"""The interface of all strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from inventory.outcomes import OnGranted, Outcome, Purchase


class Strategy(ABC):
    """A way of selling units of an item.

    Attributes:
        name: the name that sales refer to; its purchases have it as a label in `purchase_seconds`.
        safe: never oversells, whatever races and crashes; the others are for demonstrations.
        fenced: its writes carry the fencing token of the item's lock.
        summary: one line for the pages and the documentation.
    """

    name: ClassVar[str]
    safe: ClassVar[bool] = True
    fenced: ClassVar[bool] = False
    summary: ClassVar[str]

    @abstractmethod
    def sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        """Sell to one buyer, commit, and measure it; see `inventory.selling.seller.Seller.sell`."""
