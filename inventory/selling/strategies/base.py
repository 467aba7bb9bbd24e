"""One interface for every way of selling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from inventory.outcomes import OnGranted, Outcome, Purchase


class Strategy(ABC):
    """A way of selling units of an item so that (one hopes) no more are sold than there are.

    Attributes:
        name: what a sale names it by.
        safe: never oversells, whatever races and crashes; others are for demonstrations only.
        fenced: its writes carry the fencing token of the item's lock.
        summary: one line for the admin and the documentation.
    """

    name: ClassVar[str]
    safe: ClassVar[bool] = True
    fenced: ClassVar[bool] = False
    summary: ClassVar[str]

    @classmethod
    def make(cls) -> Self:
        """Return an instance with everything it needs from this process."""
        return cls()

    @abstractmethod
    def sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        """Sell to one buyer and commit.

        Args:
            purchase: what is asked for.
            on_granted: opens what the shop needs, in the same transaction.

        Raises:
            Busy: too much load, or no database; nothing was written.
            OutcomeUnknown: it may have been sold; the same key later gets the truth.
            guard.NoSuchItem: no such item.
            Exception: what ``on_granted`` raised; nothing was written.
        """
