"""Lesson 12, fixed: the row is created before it is locked."""

from typing import Any


class EnsuredRowLock:
    """`connection` is a psycopg connection, not in autocommit mode."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._name = name

    def acquire(self, _timeout: float = 0.0) -> bool:
        """Create the row unless it exists; then wait in the database's queue until it is ours."""
        self._connection.execute(
            "INSERT INTO lock_row (name, taken_at) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (self._name, 0.0),
        )
        self._connection.commit()
        self._connection.execute(
            "SELECT name FROM lock_row WHERE name = %s FOR UPDATE", (self._name,)
        )
        return True

    def release(self) -> None:
        """End the transaction, which releases the lock."""
        self._connection.commit()
