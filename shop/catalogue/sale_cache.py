"""A cache of sales per process, which saves hot requests a query.

It only refuses early: the purchase's own transaction reads the sale's row again, so a cached sale
may be a second old without anything being sold outside its window.

Times are the database's: each read records its offset from this process's monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Protocol

from django.db import connection

FRESH = 1.0
"""Seconds that a sale is cached."""

MAX_SALES = 10_000
"""Cached sales; when there are more, the cache starts over."""

MAX_AT_ONCE = 1_000
"""Sales that are read again in one query."""

READ = """
SELECT now(), id, item_id, price, currency, "limit", starts_at, ends_at, paused, hold
FROM shop_sale WHERE id = ANY(%s)
"""


class NoSuchSale(LookupError):
    """No sale has this id."""


class Window(Protocol):
    """The window of a sale, read from its row or from the cache."""

    @property
    def starts_at(self) -> datetime: ...  # noqa: D102
    @property
    def ends_at(self) -> datetime: ...  # noqa: D102
    @property
    def paused(self) -> bool: ...  # noqa: D102


def why_closed(window: Window, now: datetime) -> str | None:
    """Return why a sale is closed at a moment: a code of `shop.refusals`, or None if open."""
    if now < window.starts_at:
        return "not_started"
    if now >= window.ends_at:
        return "ended"
    return "paused" if window.paused else None


@dataclass(frozen=True, slots=True)
class CachedSale:
    """A sale at the time it was read.

    Attributes:
        clock: the database's time minus this process's monotonic clock.
    """

    sale: int
    item: int
    price: int
    currency: str
    limit: int
    starts_at: datetime
    ends_at: datetime
    paused: bool
    hold: timedelta
    clock: datetime

    def now(self) -> datetime:
        """Return the database's time."""
        return self.clock + timedelta(seconds=time.monotonic())

    def closed(self) -> str | None:
        """Return why the sale is closed now: a code of `shop.refusals`, or None if it is open."""
        return why_closed(self, self.now())


class SaleCache:
    """Sales by id, each reread after a second."""

    def __init__(self) -> None:
        self._sales: dict[int, CachedSale] = {}
        self._fresh_until: dict[int, float] = {}
        self._asked_for: set[int] = set()

    def get(self, sale: int) -> CachedSale:
        """Return the sale, at most two seconds old: one, and one more while it is read again.

        Raises:
            NoSuchSale: no such sale.
        """
        cached = self._sales.get(sale)
        if cached is None:
            return self.refresh(sale)
        self._asked_for.add(sale)
        now = time.monotonic()
        if now < self._fresh_until.get(sale, 0.0):
            return cached
        # One request rereads it, and the others that are asked for and soon due; a query for each
        # would be most of what a purchase costs where many items are sold. Concurrent requests use
        # the cached sales.
        asked_for, self._asked_for = self._asked_for, set()
        soon = now + FRESH / 2
        others = [each for each in asked_for - {sale} if self._fresh_until.get(each, 0.0) < soon]
        due = [sale, *others[: MAX_AT_ONCE - 1]]
        self._fresh_until.update(dict.fromkeys(due, now + FRESH))
        return self._read(due)

    def refresh(self, sale: int) -> CachedSale:
        """Read the sale from the database and cache it.

        Raises:
            NoSuchSale: no such sale.
        """
        return self._read([sale])

    def _read(self, sales: Sequence[int]) -> CachedSale:
        """Read sales and cache them; return the first."""
        # What is read may be as old as this, however long a connection is waited for.
        began = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(READ, [list(sales)])
            rows = cursor.fetchall()
        received = timedelta(seconds=time.monotonic())
        read = {sale: CachedSale(*(sale, *fields, now - received)) for now, sale, *fields in rows}
        if len(self._sales) + len(read.keys() - self._sales.keys()) > MAX_SALES:
            self._sales.clear()
            self._fresh_until.clear()
        for sale, cached in read.items():
            # In this order: a reader that finds a sale must also find its expiry.
            self._fresh_until[sale] = began + FRESH
            self._sales[sale] = cached
        if sales[0] not in read:
            raise NoSuchSale(sales[0])
        return read[sales[0]]


@cache
def sale_cache() -> SaleCache:
    """Return the sale cache of this process."""
    return SaleCache()
