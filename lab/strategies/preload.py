"""`preload`: the scheme of most seckill tutorials. A Redis counter decides, a queue follows, and
the queue's consumer writes the database later.

Here the queue is that of `combining`, so that the two can be compared; the counter replaces the
sold-out hint and the item's lock. Tutorials omit what makes it correct: the guard decides in the
database, the shop answers a purchase only after its row is committed, and the counter is
repaired from the database (see `lab.strategies.redis_counter`). With the counter alone, a
killed process loses units, a Redis that lost its last second sells them twice, and a buyer gets a
confirmation for an order that is never written.

Without Redis this strategy sells nothing, because every purchase passes the counter first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from django.db import Error

from inventory.models import Item
from inventory.outcomes import (
    Busy,
    Cart,
    CartAnswer,
    CartTicket,
    Level,
    LineRefused,
    NoSuchItem,
    OutcomeUnknown,
    Purchase,
    SoldOut,
)
from inventory.postgresql.base import lend_connections
from inventory.selling import batch
from inventory.selling.commit import forget_connection
from inventory.selling.hint import Sighting, look
from inventory.selling.queue import Seller, Turn
from lab.strategies.redis_counter import Admission, Counter, counter
from lab.strategies.single import Strategy

LOADS = 3
"""How often a missing counter is loaded before the purchase is refused."""


class Preload(Seller, Strategy):
    """Ask the counter, then queue for the database.

    Args:
        counters: those of this process, unless a test has others.
    """

    name = "preload"
    summary = "Redis counter first, database later, repaired from it; nothing without Redis"
    few = 0  # it sells one item at a time

    def __init__(self, counters: Counter | None = None) -> None:
        super().__init__()
        self._counter = counters or counter()
        self._seen: dict[int, Sighting] = {}
        self._loading = threading.Lock()

    def _refuse_or_queue(self, cart: Cart) -> CartAnswer:
        [purchase] = cart.lines
        admission = self._admit(purchase)
        if admission.what == "refused" and not self._may_hold(purchase, admission.level):
            return LineRefused(0, SoldOut(max(admission.level.available, 0)))
        try:
            return super()._refuse_or_queue(cart)
        except OutcomeUnknown:
            raise  # the outcome of the ticket is unknown, too; it expires by itself
        except BaseException:
            # Nothing was written. If another request holds the ticket, the guard decides.
            self._counter.settle(purchase.item, 0, [(purchase, False)])
            raise

    def _serve(self, items: tuple[int, ...], turn: Turn[Cart, CartAnswer]) -> None:
        self._sell(turn.drain(), token=None)

    def sell_batch(
        self, tickets: Sequence[CartTicket], token: int | None = None, *, locked: bool = False
    ) -> dict[int, Level]:
        """Make one transaction, and settle the counter by it."""
        levels = batch.sell(tickets, token, locked=locked)
        for item, level in levels.items():
            self._settle(item, level, tickets)
        return levels

    def _settle(self, item: int, level: Level, tickets: Sequence[CartTicket]) -> None:
        answered = [(ticket.request.lines[0], _took(ticket)) for ticket in tickets]
        self._counter.settle(item, level.version, answered)
        if level.available == 0:
            self._counter.load(item, level)

    def _admit(self, purchase: Purchase) -> Admission:
        admission = self._ask(purchase)
        for _ in range(LOADS):
            if admission is None or admission.what != "load":
                break
            # One thread per process loads the counter; the threads behind it find it loaded.
            with self._loading:
                admission = self._ask(purchase)
                if admission is not None and admission.what == "load":
                    self._load(purchase.item)
                    admission = self._ask(purchase)
        if admission is None or admission.what == "load":
            raise Busy("Redis cannot be reached")
        return admission

    def _ask(self, purchase: Purchase) -> Admission | None:
        """Ask the counter; where it refuses what the database has, it must be loaded first."""
        admission = self._counter.admit(purchase)
        if admission is None or admission.what != "refused":
            return admission
        is_there = self._has(purchase.item, purchase.quantity)
        return admission._replace(what="load") if is_there else admission

    def _has(self, item: int, units: int) -> bool:
        seen = self._seen.get(item)
        if seen is None or seen.level.available or time.monotonic() >= seen.until:
            seen = look(item)
            if seen is None:
                return True  # or it may be about to have them
            self._seen[item] = seen
        return seen.level.available >= units

    def _load(self, item: int) -> None:
        try:
            row = Item.objects.filter(pk=item).values_list("available", "version").first()
        except Error as error:
            forget_connection()
            raise Busy("the database cannot be reached") from error
        finally:
            lend_connections()
        if row is None:
            raise NoSuchItem(item)
        self._counter.load(item, Level(*row))

    def _may_hold(self, purchase: Purchase, level: Level) -> bool:
        """Return whether to ask the database, because the key may have been granted before."""
        try:
            holders = self._sold_out.buyers_of(purchase.item, level.version)
        except Error:
            return True
        finally:
            lend_connections()
        return holders is None or purchase.buyer in holders


def _took(ticket: CartTicket) -> bool:
    return isinstance(ticket.answer, list) and not ticket.answer[0].replayed
