"""The sold-out hint, which lets a process refuse without a query.

A process that has read that an item is sold out refuses purchases of it for `TRUST` seconds, and
reads the row again before they are over. A transaction that adds units to such an item locks its
hint and waits for that time before it commits (`end_hints`). So no refusal is out of date, even if
a process dies between two lines or Redis fails. The hint only filters; the database decides.

    time  0 ms   a process reads "0 left": until 30 ms it refuses without a query
    time 10 ms   it reads "0 left" again: until 40 ms
    time 12 ms   a cancelled purchase locks the hint, and waits for 30 ms before its commit
    time 20 ms   the process cannot get the hint's lock, so it refuses nobody any more; one that was
                 too busy to ask again would stop at 40 ms
    time 42 ms   the unit is committed
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import LiteralString, NamedTuple

import psycopg
from django.db import Error, connection

from inventory import metrics
from inventory.models import Reservation
from inventory.outcomes import CartTicket, Level, LineRefused, Purchase, SoldOut
from inventory.postgresql.base import lend_connections, plain_cursor
from inventory.selling.commit import forget_connection

TRUST = 0.03
"""Seconds for which a process may refuse without reading the item again, and for which a
transaction that adds units to a sold-out item waits before its commit."""

LOOK_AGAIN = TRUST / 3
"""Seconds between readings of a sold-out item. A busy process may wait twice as long for the
answer, and the reading before must be valid until then."""

MAX_HOLDERS = 100_000
"""Buyers remembered per item (about 8 MB); with more, refusals query the database."""

MAX_ITEMS = 64
"""Sold-out items remembered per process. The others are refused by the database."""

HINTS = 1752788596
"""The first key of a hint's advisory lock: "hint" in ASCII. The second is the item's id."""

# The lock comes first: PostgreSQL releases it after its holder's commit can be seen, so the level
# is not from before a change whose wait was over when this began.
LOOK: LiteralString = """
SELECT pg_try_advisory_xact_lock_shared(%(hints)s, %(key)s);
SELECT available, version FROM inventory_item WHERE id = %(item)s
"""

END: LiteralString = """
SELECT pg_advisory_xact_lock(%(hints)s, key) FROM unnest(%(keys)s::int[]) AS key;
SELECT pg_sleep(%(trust)s)
"""


class Sighting(NamedTuple):
    """A level that was read.

    Attributes:
        until: monotonic time. If no unit was left, none is added before it.
    """

    level: Level
    until: float


def look(item: int) -> Sighting | None:
    """Read an item's level, outside a transaction.

    Returns:
        None while units are being added, if there is no such item, or if the database does not
        answer.
    """
    asked = time.monotonic()
    parameters = {"hints": HINTS, "key": _key(item), "item": item}
    try:
        cursor = plain_cursor().execute(LOOK, parameters)
        locked = cursor.fetchone()
        cursor.nextset()
        level = cursor.fetchone()
    except (Error, psycopg.Error):
        forget_connection()
        return None
    finally:
        lend_connections()
    return Sighting(Level(*level), asked + TRUST) if level and locked == (True,) else None


def end_hints(items: Collection[int]) -> None:
    """Wait until no process refuses purchases of these items without a query; none does so again
    before the caller's commit.

    Call it with the items' rows locked, in the transaction that adds units to them.

    Args:
        items: ids of items that may have been seen sold out; none: it does not wait.
    """
    if items:
        parameters = {
            "hints": HINTS,
            "keys": [_key(item) for item in sorted(items)],
            "trust": TRUST,
        }
        with connection.wrap_database_errors:
            plain_cursor().execute(END, parameters)


def _key(item: int) -> int:
    # An advisory lock's second key has 32 bits. Two items with the same key wait for each other.
    return item % 2**31


def buyers_of(item: int, version: int) -> frozenset[int] | None:
    """Return the buyers with a reservation of an item, released ones included; None if too many.

    A repeated key must still get its order after the item has sold out. While an item stays sold
    out, no new buyer can reserve it, so the set of its buyers is read once each time that it runs
    out. All other buyers are refused without a query.

    Args:
        item: id of the item.
        version: of the level, zero, at which the item was seen before this call: the read then
            includes every reservation made until that change.
    """
    buyers = Reservation.objects.filter(item=item).values_list("buyer", flat=True)
    found = frozenset(buyers[: MAX_HOLDERS + 1])
    return None if len(found) > MAX_HOLDERS else found


@dataclass(slots=True)
class Refusing:
    """An item that was seen sold out.

    Attributes:
        until: monotonic time before which no unit is added.
        buyers: those with a reservation of the item, who may repeat a purchase.
        due: monotonic time at which to read the item again.
    """

    until: float
    buyers: frozenset[int]
    due: float


class SoldOutItems:
    """The items that this process has seen sold out.

    It remembers `MAX_ITEMS` of them, those that were seen last.

    Attributes:
        buyers_of: the function of this name, with a cache.
        seen: the items, in the order in which they were seen; None: not yet read with their buyers.
            Purchases of other items go to the queue without a question here.
    """

    def __init__(self) -> None:
        self.buyers_of = lru_cache(maxsize=MAX_ITEMS)(buyers_of)
        self.seen: dict[int, Refusing | None] = {}
        self._remembering = threading.Lock()

    def ran_out(self, item: int) -> None:
        """Remember an item of which the last units were sold."""
        self._remember(item)

    def refuses(self, purchase: Purchase) -> bool:
        """Return whether to refuse a purchase at once, by the last reading of its item."""
        refusing, now = self.seen.get(purchase.item), time.monotonic()
        if refusing is not None and now >= refusing.due:
            # This request reads the item again, without queueing. The others are refused by the
            # last reading until the answer has come.
            refusing.due = now + LOOK_AGAIN
            refusing, now = self._look(purchase.item), time.monotonic()
        if refusing is None or now >= refusing.until or purchase.buyer in refusing.buyers:
            return False
        metrics.REFUSED_BY_HINT.inc()
        return True

    def refuse(self, item: int, tickets: Sequence[CartTicket]) -> Sequence[CartTicket]:
        """Look at an item after tickets have queued, and refuse purchases of it if it is sold out.

        Returns:
            The others: carts of several lines, purchases of other items, and those of its buyers.
        """
        refusing = self._look(item)
        if refusing is None:
            return tickets
        others = []
        for ticket in tickets:
            # The reading is new enough for all of these: they queued before it.
            [line, *further] = ticket.request.lines
            if further or line.item != item or line.buyer in refusing.buyers:
                others.append(ticket)
            else:
                ticket.answer = LineRefused(0, SoldOut(0))
        metrics.REFUSED_BY_HINT.inc(len(tickets) - len(others))
        return others

    def _look(self, item: int) -> Refusing | None:
        """Look at an item; None if it is not sold out, or its buyers cannot be read."""
        seen = look(item)
        if seen is None or seen.level.available > 0:
            self._forget(item)
            return None
        try:
            buyers = self.buyers_of(item, seen.level.version)
        except Error:
            return None
        if buyers is None:
            return None
        before = self.seen.get(item)
        due = before.due if before else time.monotonic() + LOOK_AGAIN
        found = Refusing(seen.until, buyers, due)
        self._remember(item, found)
        return found

    def _remember(self, item: int, found: Refusing | None = None) -> None:
        """Move an item to the end, with what was found or known of it; forget the first ones."""
        with self._remembering:
            known = self.seen.pop(item, None)
            self.seen[item] = found or known
            if len(self.seen) > MAX_ITEMS:
                del self.seen[next(iter(self.seen))]

    def _forget(self, item: int) -> None:
        with self._remembering:
            self.seen.pop(item, None)
