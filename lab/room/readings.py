"""What Redis and PostgreSQL say about the watched sales, each read in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import Error, connection
from redis.exceptions import RedisError

from inventory.audit import audit
from inventory.redis import ITEM_LOCK
from inventory.selling.commit import forget_connection
from lab.strategies import CLASSES, DEFAULT
from locking import LockUnavailable
from locking.backends.redis_status import status_of

LATE = 1.0
"""Seconds without an answer after which a server counts as away."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source says at one moment.

    Attributes:
        up: it has answered lately.
        value: its last answer, which may be old.
    """

    up: bool
    value: dict[str, Any]


@dataclass(slots=True)
class Source:
    """Reads one server again and again.

    A thread for each, so that a server that hangs delays only its own figures.

    Attributes:
        name: of the thread.
        read: returns the answer.
        errors: exceptions that mean that the server is away.
        pause: returns the seconds until the next reading.
    """

    name: str
    read: Callable[[], dict[str, Any]]
    errors: tuple[type[Exception], ...]
    pause: Callable[[], float]
    _value: dict[str, Any] = field(default_factory=dict)
    _answered: float | None = None
    _failed: bool = False
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to read."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the current reading."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def step(self) -> None:
        """Read once."""
        try:
            self._value = self.read()
        except self.errors:
            self._failed = True
            return
        self._answered, self._failed = time.monotonic(), False

    def now(self) -> Reading:
        """Return the last answer, and whether the server still answers."""
        answered = self._answered
        recent = answered is not None and time.monotonic() - answered < LATE + self.pause()
        return Reading(recent and not self._failed, self._value)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self.step()
                self._end.wait(self.pause())
        finally:
            connection.close()  # this thread's, if it asked the database


LOCK_ERRORS: tuple[type[Exception], ...] = (RedisError, LockUnavailable)


class Locks:
    """Reads the locks of items.

    Args:
        items: returns the items' ids.
    """

    def __init__(self, items: Callable[[], Sequence[int]]) -> None:
        self._items = items

    def read(self) -> dict[str, Any]:
        """Read every lock in one command each.

        Raises:
            RedisError, LockUnavailable: Redis does not answer.
        """
        # Without a watched item, ask for the lock of no item: the answer shows that Redis is up.
        return {str(item): self._lock(item) for item in self._items() or [0]}

    def _lock(self, item: int) -> dict[str, Any]:
        status = status_of(ITEM_LOCK.make(item))
        return {
            "holder": _pid(status.owner) if status.owner else None,
            "token": status.token,
            "remaining": round(status.remaining, 2),
            "lease": ITEM_LOCK.lease,
            "waiters": [_pid(waiter) for waiter in status.waiters],
        }


def _pid(owner: str) -> str:
    """Return the process id of an owner's name, "host/process id"."""
    return owner.rpartition("/")[2]


STOCK_ERRORS: tuple[type[Exception], ...] = (Error,)

SALES = """
SELECT sale.id, item.id, product.name, product.name_zh, coalesce(strategy.name, %(default)s),
       sale.paused,
       item.total, item.available, item.reserved, item.fence,
       extract(epoch FROM sale.starts_at - now())::float,
       extract(epoch FROM sale.ends_at - now())::float
FROM shop_sale AS sale
JOIN inventory_item AS item ON item.id = sale.item_id
JOIN shop_product AS product ON product.id = sale.product_id
LEFT JOIN lab_salestrategy AS strategy ON strategy.sale_id = sale.id
WHERE sale.id = ANY(%(sales)s)
   OR (cardinality(%(sales)s::bigint[]) = 0 AND sale.id = (SELECT max(id) FROM shop_sale))
ORDER BY sale.id
"""
"""Rows by primary key only: it may run several times per second during a sale."""

OWED = """
SELECT count(*) FILTER (WHERE queue = ''), count(*) FILTER (WHERE queue = 'mail')
FROM inventory_outboxmessage WHERE done IS NULL AND dead IS NULL
"""

RECENT = """
SELECT sale.id, coalesce(strategy.name, %(default)s), item.total
FROM shop_sale AS sale JOIN inventory_item AS item ON item.id = sale.item_id
LEFT JOIN lab_salestrategy AS strategy ON strategy.sale_id = sale.id
ORDER BY sale.id DESC LIMIT 12
"""

COLUMNS = (
    *("id", "item", "name", "name_zh", "strategy", "paused"),
    *("total", "available", "reserved", "fence", "starts_in", "ends_in"),
)

SHARE = 50
"""The audit adds up all reservations of an item, so it rests for this many times its duration: it
costs at most 2 % of one core, however long the sale gets."""


class Stock:
    """Reads the watched sales.

    Args:
        watched: returns the sales' ids; none means the newest sale.
    """

    def __init__(self, watched: Callable[[], Sequence[int]]) -> None:
        self._watched = watched
        self._audit_at = 0.0
        self._items: list[int] = []
        self._books: dict[int, dict[str, Any]] = {}
        self._slow: dict[str, Any] = {"outbox": 0, "mails": 0, "recent": []}

    def read(self) -> dict[str, Any]:
        """Read once.

        Raises:
            Error: the database does not answer.
        """
        try:
            sales = self._sales()
            items = [sale["item"] for sale in sales]
            if items != self._items or time.monotonic() >= self._audit_at:
                self._read_slowly(items)
        except Error:
            forget_connection()
            raise
        for sale in sales:
            sale |= self._books.get(sale["item"], {})
        return {"sales": sales, **self._slow}

    def _sales(self) -> list[dict[str, Any]]:
        with connection.cursor() as cursor:
            cursor.execute(SALES, {"sales": list(self._watched()), "default": DEFAULT})
            found = [dict(zip(COLUMNS, row, strict=True)) for row in cursor.fetchall()]
        for sale in found:
            kind = CLASSES.get(sale["strategy"])
            sale["locked"] = kind is not None and kind.fenced
            sale["oversold"] = max(0, sale["reserved"] - sale["total"])
        return found

    def _read_slowly(self, items: list[int]) -> None:
        started = time.monotonic()
        found = audit(items)
        problems = {
            book.item: [text for text in found.problems if text.startswith(f"item {book.item}:")]
            for book in found.items
        }
        # A quota belongs to a scope, which several items may share.
        others = [text for text in found.problems if not text.startswith("item ")]
        self._books = {
            book.item: {
                "held": book.held,
                "sold": book.confirmed,
                "problems": [*problems[book.item], *others][:3],
            }
            for book in found.items
        }
        with connection.cursor() as cursor:
            cursor.execute(OWED)
            outbox, mails = cursor.fetchone()
            cursor.execute(RECENT, {"default": DEFAULT})
            recent = [
                {"id": pk, "strategy": strategy, "total": total}
                for pk, strategy, total in cursor.fetchall()
            ]
        self._slow = {"outbox": outbox, "mails": mails, "recent": recent}
        self._items = items
        self._audit_at = time.monotonic() + SHARE * (time.monotonic() - started)
