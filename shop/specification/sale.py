"""A sale: so many units of a product at a price, in a window, with a limit per buyer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


class Refused(Exception):
    """The shop says no: a code, perhaps another that is as true, about what, and figures."""

    def __init__(
        self, code: str, *, about: Sale | None = None, or_else: str = "", **figures: int
    ) -> None:
        super().__init__(code)
        self.code, self.about, self.or_else, self.figures = code, about, or_else, figures


@dataclass(eq=False)
class Sale:
    """A sale. Times are seconds of the story's clock, amounts are in minor units."""

    name: str
    total: int
    """Units stocked and not written off."""
    price: int
    currency: str
    limit: int
    opens: int
    closes: int
    hold: int
    list_price: int = 0
    resells_cancelled: bool = True
    resells_returned: bool = True
    paused: bool = False

    def __post_init__(self) -> None:
        self.available = self.total
        self.used: Counter[str] = Counter()  # of the limit, by buyer

    def closed(self, now: int) -> str:
        """Say why nothing is sold now; nothing if it is."""
        if not self.opens <= now < self.closes:
            return "not_started" if now < self.opens else "ended"
        return "paused" if self.paused else ""

    def status(self, now: int) -> str:
        """Return what everybody is shown."""
        return self.closed(now) or ("open" if self.available else "sold_out")

    def left_for(self, buyer: str) -> int:
        """Return the units that a buyer may still have."""
        return max(self.limit - self.used[buyer], 0)

    def restock(self, units: int) -> None:
        """Add units."""
        self.total += units
        self.available += units

    def take(self, buyer: str, units: int) -> None:
        """Take units for a buyer."""
        assert units <= self.available, "oversold"
        self.available -= units
        self.used[buyer] += units

    def put_back(self, buyer: str, units: int, *, resold: bool) -> None:
        """Put a buyer's units back on sale, or write them off."""
        self.used[buyer] -= units
        self.available += units if resold else 0
        self.total -= 0 if resold else units
