"""A unique index as the lock: only one client can insert the business row."""

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
