"""Lesson 11, fixed: the row is inserted in a transaction that ends with its holder.

Nobody else sees the row, yet a second INSERT of the name waits for the transaction: the database
releases the lock when the holder's connection ends, and never because the holder is slow.
"""

import time
from typing import Any

from psycopg.errors import UniqueViolation


class TransactionRowLock:
    """`connection` is a psycopg connection that nothing else uses while the lock is held."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._name = name
        connection.autocommit = False

    def acquire(self, timeout: float = 0.0) -> bool:
        """Wait in the database's queue until the row is ours."""
        try:
            self._connection.execute(
                "INSERT INTO lock_row (name, taken_at) VALUES (%s, %s)", (self._name, time.time())
            )
        except UniqueViolation:  # a row that an older version of the lock has left behind
            self._connection.rollback()
            return False
        return True

    def release(self) -> None:
        """Take the row back, which lets the next client in."""
        self._connection.rollback()
