"""The interface of all strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from inventory.outcomes import OnGranted, Outcome, Purchase


class Strategy(ABC):
    """A way of selling units of an item.

    Attributes:
        name: the name that sales refer to.
        safe: never oversells, whatever races and crashes; the others are for demonstrations.
        fenced: its writes carry the fencing token of the item's lock.
        summary: one line for the admin and the documentation.
    """

    name: ClassVar[str]
    safe: ClassVar[bool] = True
    fenced: ClassVar[bool] = False
    summary: ClassVar[str]

    @classmethod
    def make(cls) -> Self:
        """Return an instance for this process."""
        return cls()

    @abstractmethod
    def sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        """Sell to one buyer and commit.

        Args:
            purchase: the request.
            on_granted: opens what the shop needs, in the same transaction.

        Raises:
            Busy: overload, or the database is unreachable; nothing was written.
            OutcomeUnknown: it may have been sold; a retry with the same key gets the result.
            guard.NoSuchItem: no such item.
            Exception: any exception of ``on_granted``; nothing was written.
        """
