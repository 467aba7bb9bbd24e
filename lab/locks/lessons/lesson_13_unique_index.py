"""Lesson 13: a unique index as the lock; the business row itself is what only one can insert.

Flaw: none that a schedule could show, because it is idempotency and not mutual exclusion: two may
work at the same time, but only one result is kept, for ever.  It is what a refund or a settlement
needs.  For work outside the database take the production lock, and its fence.
"""

from __future__ import annotations

from typing import Any

TABLE = "CREATE TABLE IF NOT EXISTS refund (order_id text PRIMARY KEY, amount integer)"


class UniqueIndexGuard:
    """`connection` is a psycopg connection in autocommit mode, on a database with `TABLE`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def refund(self, order: str, amount: int) -> bool:
        """Record the refund of an order; return whether it is new.  Pay out only if it is."""
        inserted = self._connection.execute(
            "INSERT INTO refund (order_id, amount) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (order, amount),
        )
        return bool(inserted.rowcount)
