"""The sale that a run is about, and the wait for its opening by the server's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sale:
    """What a buyer needs to know of a sale.

    `opens_at` is on this process's monotonic clock; `clock` is what to add to a time of the server
    (in seconds since 1970) to have it on that clock.
    """

    id: str
    item: str | None
    limit: int
    opens_at: float
    clock: float = 0.0

    def wait_for_opening(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Return when the sale is open."""
        while (left := self.opens_at - time.monotonic()) > 0:
            sleep(left)
