"""What PostgreSQL says about the watched sales: stock, terms, the books, work that is owed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import Error, connection

from inventory.audit import audit
from inventory.selling.commit import forget_connection
from lab.strategies import CLASSES, DEFAULT

ERRORS: tuple[type[Exception], ...] = (Error,)

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
