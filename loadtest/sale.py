"""The sale that a run is about, and the wait for its opening by the server's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any


class SaleUnusable(RuntimeError):
    """The sale cannot be load-tested; says why."""


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

    @classmethod
    def from_json(cls, sale: str, body: dict[str, Any], *, answered: float) -> Sale:
        """Read `GET /api/v1/sales/{id}`, answered at this monotonic time in seconds.

        Clocks of buyers differ; only the difference between the server's own two times counts. The
        server read its clock between the two, so counted from the later one no buyer is too early.
        """
        try:
            opens = datetime.fromisoformat(body["starts_at"])
            now = datetime.fromisoformat(body["server_time"])
            limit = int(body["limit"])
        except (KeyError, TypeError, ValueError) as error:
            raise SaleUnusable(f"the answer about sale {sale} lacks a field: {error!r}") from error
        item = body.get("item")
        return cls(
            id=sale,
            item=None if item is None else str(item),
            limit=limit,
            opens_at=answered + (opens - now).total_seconds(),
            clock=answered - now.timestamp(),
        )

    def wait_for_opening(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Return when the sale is open."""
        while (left := self.opens_at - time.monotonic()) > 0:
            sleep(left)
