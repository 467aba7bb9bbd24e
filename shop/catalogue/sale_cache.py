"""Caches of sales, per process: `SaleCache` for purchases, and `StockCache` for pages that show a
sale with its stock.

They save queries and only refuse early: a purchase's own transaction reads the sale's row again and
decides. Times are the database's: each read records its offset from this process's monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.auth.models import Group
from django.db import Error, connection
from django.db.models.functions import Now

from inventory import services
from inventory.postgresql.base import lend_connections
from inventory.selling.queue import CombiningQueue, Turn
from shop.catalogue.models import Sale
from shop.catalogue.sales import held
from shop.operating.clock import clock

FRESH = 1.0
"""Seconds for which a reading is repeated, counted from the moment before its query was sent."""

IN_DEMAND = 10.0
"""Seconds since a sale was last asked for, during which it is read again together with others. To
read it ten times in vain costs less than a query of its own."""

MEMBERS_FRESH = 10.0
"""Seconds for which a buyer's membership of a group is repeated: buyers who come before a sale
opens for them ask again and again."""

MAX_MEMBERS = 100_000
"""Memberships that are remembered; with more, all are forgotten and read again."""

MAX_SALES = 10_000
"""Sales in a cache, including ids that no sale has; with more, the cache is emptied."""

MAX_AT_ONCE = 1_000
"""Sales that are read in one query."""

MAX_WAITING = 10_000
"""Requests that may wait for a query: more than a process has connections."""

MAX_WAIT = 5.0
"""Seconds that a request waits for the query before its own; as long as for a connection."""

FIELDS = (
    "now",
    "pk",
    "product_id",
    "item_id",
    "price",
    "currency",
    "limit",
    "starts_at",
    "ends_at",
    "paused",
    "hold",
    "kind",
    "early_starts_at",
    "early_group_id",
    "early_code",
    "item__available",
    "held",
)

READ = """
SELECT now(), id, product_id, item_id, price, currency, "limit", starts_at, ends_at, paused, hold,
       kind, early_starts_at, early_group_id, early_code
FROM shop_sale WHERE id = ANY(%s)
"""


class NoSuchSale(LookupError):
    """No sale has this id."""


def why_closed(sale: Sale | CachedSale, now: datetime, opens: datetime | None = None) -> str | None:
    """Return why a sale is closed at a moment: a code of `shop.refusals`, or None if open.

    Args:
        sale: the sale.
        now: the moment, by the database's clock.
        opens: when it opens for the buyer who asks; None: when it opens for everybody.
    """
    if now < (opens or sale.starts_at):
        return "not_started"
    if now >= sale.ends_at:
        return "ended"
    return "paused" if sale.paused else None


def opens_for(sale: Sale | CachedSale, buyer: int | None, code: str = "") -> datetime:
    """Return when a sale opens for a buyer: earlier for some, by a code or as a group's members.

    This only refuses early, as all caches do; the purchase's own transaction decides again.

    Args:
        sale: the sale.
        buyer: id of the user; None for a visitor who is not signed in.
        code: the code that the buyer gives; empty for none.

    Raises:
        django.db.Error: the database does not say whether the buyer is a member.
    """
    if sale.early_starts_at is None:
        return sale.starts_at
    has_code = bool(sale.early_code) and code == sale.early_code
    group = sale.early_group_id
    if has_code or (buyer is not None and group is not None and members().has(group, buyer)):
        return sale.early_starts_at
    return sale.starts_at


class Members:
    """Whether buyers are members of groups, each as of a few seconds ago."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[float, bool]] = {}

    def has(self, group: int, buyer: int) -> bool:
        """Return whether a buyer is a member of a group."""
        now = time.monotonic()
        until, answer = self._known.get((group, buyer), (now, False))
        if now < until:
            return answer
        answer = Group.objects.filter(pk=group, user=buyer).exists()
        if len(self._known) >= MAX_MEMBERS:
            self._known.clear()
        self._known[group, buyer] = now + MEMBERS_FRESH, answer
        return answer


@dataclass(frozen=True, slots=True)
class CachedSale:
    """A sale at the time it was read.

    Attributes:
        clock: the database's time minus this process's monotonic clock.
    """

    sale: int
    product: int
    item: int
    price: int
    currency: str
    limit: int
    starts_at: datetime
    ends_at: datetime
    paused: bool
    hold: timedelta
    kind: str
    early_starts_at: datetime | None
    early_group_id: int | None
    early_code: str
    clock: datetime

    @classmethod
    def of_row(cls, columns: Sequence[Any], now: datetime, received: timedelta) -> CachedSale:
        """Return the sale of a row.

        Args:
            columns: the values of all attributes but `clock`.
            now: the database's time when it read the row.
            received: this process's monotonic clock when it had the row.
        """
        values = (*columns, now - received)
        return cls(*values)

    def now(self) -> datetime:
        """Return the database's time."""
        return self.clock + timedelta(seconds=time.monotonic())

    def closed(self, buyer: int | None = None, code: str = "") -> str | None:
        """Return why the sale is closed now: a code of `shop.refusals`, or None if it is open.

        Args:
            buyer: for whom; None for everybody.
            code: the buyer's code for buying earlier.
        """
        now = self.now()
        # Once the sale is open for everybody, no membership is looked up.
        return why_closed(self, now, opens_for(self, buyer, code) if now < self.starts_at else None)


def _only(sale: int, read: Mapping[int, CachedSale]) -> CachedSale:
    """Return one of the sales that were read. Raises `NoSuchSale`."""
    if sale not in read:
        raise NoSuchSale(sale)
    return read[sale]


class SaleCache:
    """Sales by id, each read again after a second, which saves a purchase a query.

    A cached sale may be a second old, but nothing is sold outside the sale's window: the purchase's
    own transaction reads the row again.
    """

    def __init__(self) -> None:
        self._sales: dict[int, CachedSale] = {}
        self._fresh_until: dict[int, float] = {}
        self._asked_at: dict[int, float] = {}
        # A rush begins with a thousand requests for a sale that is not known yet. One query answers
        # all that wait; requests that come while it runs wait for the next one.
        self._readers: CombiningQueue[int, CachedSale] = CombiningQueue(
            max_batch=MAX_AT_ONCE,
            max_waiting=MAX_WAITING,
            max_wait=MAX_WAIT,
            counted=False,
        )

    def get(self, sale: int) -> CachedSale:
        """Return the sale, at most two seconds old: one second, and one while it is read again.

        Raises:
            NoSuchSale: no such sale.
            Busy: it was not read in time.
            django.db.Error: it cannot be read.
        """
        cached = self._sales.get(sale)
        if cached is None:
            # The reader needs a connection, and those who wait for it must not have them all.
            lend_connections()
            turn = self._readers.enter("sales", sale)
            if turn.leads:
                with turn:
                    self._answer(turn)
            return turn.result()
        now = self._asked_at[sale] = time.monotonic()
        if now < self._fresh_until.get(sale, 0.0):
            return cached
        due = [sale, *self._due_soon(sale, now)]
        self._fresh_until.update(dict.fromkeys(due, now + FRESH))
        return _only(sale, self._read(due))

    def refresh(self, sale: int) -> CachedSale:
        """Read the sale from the database and cache it.

        Raises:
            NoSuchSale: no such sale.
        """
        return _only(sale, self._read([sale]))

    def _answer(self, turn: Turn[int, CachedSale]) -> None:
        """Answer all requests that wait, with one query for the sales that are not known."""
        tickets = turn.drain()
        found = {ticket.request: self._sales.get(ticket.request) for ticket in tickets}
        if unknown := [sale for sale, cached in found.items() if cached is None]:
            found.update(self._read(unknown))
        for ticket in tickets:
            ticket.answer = found[ticket.request] or NoSuchSale(ticket.request)

    def _due_soon(self, sale: int, now: float) -> list[int]:
        """Return the other sales in demand that are due, or will be soon, to be read with this one.

        Where many items are sold, a query for each of them would be most of what a purchase costs.
        Concurrent requests use the cached sales meanwhile.
        """
        in_demand = {
            other: asked_at
            for other, asked_at in list(self._asked_at.items())
            if now - asked_at < IN_DEMAND
        }
        self._asked_at = in_demand
        soon = now + FRESH / 2
        due = [
            other
            for other in list(in_demand)
            if other != sale and self._fresh_until.get(other, 0.0) < soon
        ]
        return due[: MAX_AT_ONCE - 1]

    def _read(self, sales: Sequence[int]) -> dict[int, CachedSale]:
        """Read sales and cache them; return those that exist."""
        # The rows may be as old as this moment, also if a connection is long in coming.
        began, asked = time.monotonic(), time.time()
        with connection.cursor() as cursor:
            cursor.execute(READ, [list(sales)])
            rows = cursor.fetchall()
        received = timedelta(seconds=time.monotonic())
        if rows:
            clock.compare(asked, rows[0][0], time.time())
        found = (CachedSale.of_row(columns, now, received) for now, *columns in rows)
        read = {cached.sale: cached for cached in found}
        if len(self._sales) + len(read.keys() - self._sales.keys()) > MAX_SALES:
            self._sales.clear()
            self._fresh_until.clear()
            self._asked_at.clear()
        for sale, cached in read.items():
            # In this order: a reader that finds a sale must also find its expiry.
            self._fresh_until[sale] = began + FRESH
            self._asked_at.setdefault(sale, began)
            self._sales[sale] = cached
        return read


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
        """Return the sale's status now: its window goes by the database's clock.

        It is the same for everybody: `early` while only some may buy.
        """
        sale, now = self.sale, self.sale.now()
        if closed := why_closed(sale, now, sale.early_starts_at):
            return closed
        if not self.available:
            return "sold_out"
        return "early" if now < sale.starts_at else "open"


class StockCache:
    """Sales with their stock by id, at most a second old, so that open pages do not slow purchases.

    Open pages ask every second. However many ask, and for however many sales, the process sends one
    query at a time, on one connection, for the sales whose last reading is more than a second old.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, CachedStock | None]] = {}
        # The leader's query answers all requests that wait; requests that come while it runs wait
        # for the next leader.
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
        """Answer all requests that wait, with one query for the sales that are due."""
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
        # The age counts from here, also if a connection is long in coming.
        began = time.monotonic()
        found = Sale.objects.filter(pk__in=sales).annotate(now=Now(), held=held())
        rows = list(found.values_list(*FIELDS))
        received = timedelta(seconds=time.monotonic())
        read: dict[int, tuple[float, CachedStock | None]] = dict.fromkeys(sales, (began, None))
        for now, *columns, available, unpaid in rows:
            cached = CachedSale.of_row(columns, now, received)
            read[cached.sale] = began, CachedStock(cached, available, unpaid)
        if len(self._known) + len(read) > MAX_SALES:
            self._known.clear()
        self._known.update(read)
        return read


class AvailabilityCache:
    """Remembers whether a sold-out item may become available again, because unpaid orders expire.

    It is asked only after a refusal, so refusals cost one small query per second, purchases none.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, bool]] = {}

    def may(self, item: int) -> bool:
        """Return whether units are held without payment, as of about a second ago."""
        now = time.monotonic()
        until, answer = self._known.get(item, (now, False))
        if now < until:
            return answer
        if len(self._known) >= MAX_SALES:
            self._known.clear()
        # One request queries again; concurrent ones use the cached answer.
        self._known[item] = now + FRESH, answer
        try:
            answer = services.may_come_back(item)
        except Error:
            # Promise nothing while the database is unreachable; the refusal needs no answer.
            answer = False
        self._known[item] = now + FRESH, answer
        return answer


# Each of these returns the process's own cache.
sale_cache = cache(SaleCache)
stock_cache = cache(StockCache)
availability_cache = cache(AvailabilityCache)
members = cache(Members)
