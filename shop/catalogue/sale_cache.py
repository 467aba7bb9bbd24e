"""A cache of sales per process, which saves hot requests a query.

It only refuses early: the purchase's own transaction reads the sale's row again, so a cached sale
may be a second old without anything being sold outside its window.

Times are the database's: each read records its offset from this process's monotonic clock.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Protocol

from django.db import connection

FRESH = 1.0
"""Seconds that a sale is cached."""

MOST_SALES = 10_000
"""Cached sales; when there are more, the cache starts over."""

READ = """
SELECT item_id, price, currency, "limit", starts_at, ends_at, paused, hold, strategy, now()
FROM shop_sale WHERE id = %s
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
    """Return why a sale is closed at a moment: a code of ``shop.refusals``, or None if open."""
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
    strategy: str
    clock: datetime

    def now(self) -> datetime:
        """Return the database's time."""
        return self.clock + timedelta(seconds=time.monotonic())

    def closed(self) -> str | None:
        """Return why the sale is closed now: a code of ``shop.refusals``, or None if it is open."""
        return why_closed(self, self.now())


class SaleCache:
    """Sales by id, each reread after a second."""

    def __init__(self) -> None:
        self._sales: dict[int, CachedSale] = {}
        self._fresh_until: dict[int, float] = {}

    def get(self, sale: int) -> CachedSale:
        """Return the sale, at most two seconds old: one, and one more while it is read again.

        Raises:
            NoSuchSale: no such sale.
        """
        cached = self._sales.get(sale)
        if cached is not None:
            if time.monotonic() < self._fresh_until.get(sale, 0.0):
                return cached
            # One request rereads it; concurrent ones use the cached sale.
            self._fresh_until[sale] = time.monotonic() + FRESH
        return self.refresh(sale)

    def refresh(self, sale: int) -> CachedSale:
        """Read the sale from the database and cache it.

        Raises:
            NoSuchSale: no such sale.
        """
        # What is read may be as old as this, however long a connection is waited for.
        began = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(READ, [sale])
            row = cursor.fetchone()
        if row is None:
            raise NoSuchSale(sale)
        *fields, now = row
        clock = now - timedelta(seconds=time.monotonic())
        cached = CachedSale(*(sale, *fields, clock))
        if len(self._sales) >= MOST_SALES:
            self._sales.clear()
            self._fresh_until.clear()
        # In this order: a reader that finds a sale must also find its expiry.
        self._fresh_until[sale] = began + FRESH
        self._sales[sale] = cached
        return cached


@cache
def sale_cache() -> SaleCache:
    """Return the sale cache of this process."""
    return SaleCache()
