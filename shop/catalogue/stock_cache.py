"""A cache per process of what readers are shown of a sale, so that they cost the buyers nothing.

Open pages ask every second. However many ask, and for however many sales, one query at a time reads
what is more than a second old, on one connection of the process.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from django.db.models.functions import Now

from inventory.selling.queue import CombiningQueue, Turn
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import CachedSale, NoSuchSale
from shop.catalogue.sales import held

FRESH = 1.0
"""Seconds that an answer is repeated, counted from before it was read."""

MAX_SALES = 10_000
"""Cached sales, also ids that no sale has; when there are more, the cache starts over."""

MAX_AT_ONCE = 1_000
"""Sales that are read in one query."""

MAX_WAITING = 10_000
"""Requests that wait for a query; above the connections of a process."""

MAX_WAIT = 5.0
"""Seconds that a request waits for the query before its own, like for a connection."""

FIELDS = (
    *("now", "pk", "item_id", "price", "currency", "limit", "starts_at", "ends_at"),
    *("paused", "hold", "item__available", "held"),
)


@dataclass(frozen=True, slots=True)
class CachedStock:
    """A sale and its stock at the time they were read.

    Attributes:
        sale: the sale.
        available: units left.
        held: whether the item is sold out and some of its units are reserved but unpaid.
    """

    sale: CachedSale
    available: int
    held: bool

    @property
    def status(self) -> str:
        """Return the sale's status now: its window goes by the database's clock."""
        return self.sale.closed() or ("open" if self.available else "sold_out")


class StockCache:
    """Sales with their stock by id, at most a second old."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, CachedStock | None]] = {}
        # Its leader reads for all that wait. What is asked meanwhile is read by the next leader.
        self._readers: CombiningQueue[int, CachedStock] = CombiningQueue(
            max_batch=MAX_AT_ONCE,
            max_waiting=MAX_WAITING,
            max_wait=MAX_WAIT,
            counted=False,
        )

    def get(self, sale: int) -> CachedStock:
        """Return a sale with its stock.

        Raises:
            NoSuchSale: no such sale, as of a second ago.
            Busy: it was not read in time.
            django.db.Error: it cannot be read.
        """
        known = self._known.get(sale)
        if known is None or time.monotonic() - known[0] >= FRESH:
            turn = self._readers.enter("sales", sale)
            if turn.leads:
                with turn:
                    self._answer(turn)
            return turn.result()
        if known[1] is None:
            raise NoSuchSale(sale)
        return known[1]

    def _answer(self, turn: Turn[int, CachedStock]) -> None:
        """Answer all that wait, from one query for what the last one has not read."""
        tickets = turn.drain()
        oldest = time.monotonic() - FRESH
        asked = {ticket.request: self._known.get(ticket.request) for ticket in tickets}
        due = [sale for sale, known in asked.items() if known is None or known[0] <= oldest]
        if due:
            asked.update(self._read(due))
        for ticket in tickets:
            known = asked[ticket.request]
            ticket.answer = (known and known[1]) or NoSuchSale(ticket.request)

    def _read(self, sales: Collection[int]) -> dict[int, tuple[float, CachedStock | None]]:
        # The age counts from here, however long a connection is waited for.
        began = time.monotonic()
        found = Sale.objects.filter(pk__in=sales).annotate(now=Now(), held=held())
        rows = list(found.values_list(*FIELDS))
        received = timedelta(seconds=time.monotonic())
        read: dict[int, tuple[float, CachedStock | None]] = dict.fromkeys(sales, (began, None))
        for now, sale, *fields, available, unpaid in rows:
            cached = CachedSale(*(sale, *fields, now - received))
            read[sale] = began, CachedStock(cached, available, unpaid)
        if len(self._known) + len(read) > MAX_SALES:
            self._known.clear()
        self._known.update(read)
        return read


@cache
def stock_cache() -> StockCache:
    """Return the cache of this process."""
    return StockCache()
