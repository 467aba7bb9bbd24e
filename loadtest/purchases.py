"""The sale that a run is about, and what a buyer asks for: a purchase, or a part to give back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field


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


def new_key() -> str:
    """An idempotency key. Random even in a seeded run: keys must never be used twice."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Purchase:
    """One idempotency key: what a buyer wants, however often they have to ask."""

    key: str
    quantity: int
    sale: Sale


@dataclass(frozen=True, slots=True)
class Part:
    """Units of an order's line to cancel or return, under a key of their own.

    `named` says whether the request names the line, which an order of one line does not need.
    """

    quantity: int
    sale: Sale
    key: str = field(default_factory=new_key)
    named: bool = True
