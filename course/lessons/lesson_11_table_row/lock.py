"""A row in a table: INSERT acquires the lock, DELETE releases it."""

import time
from typing import Any

from psycopg.errors import UniqueViolation

TABLE = "CREATE TABLE IF NOT EXISTS lock_row (name text PRIMARY KEY, taken_at double precision)"


class TableRowLock:
    """`connection` is a psycopg connection in autocommit mode, on a database with `TABLE`."""

    def __init__(self, connection: Any, name: str, *, wait: float = 1.0) -> None:
        self._connection, self._name, self._wait = connection, name, wait

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the row was inserted."""
        deadline = time.monotonic() + timeout
        while not self._insert():
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        return True

    def _insert(self) -> bool:
        try:
            self._connection.execute(
                "INSERT INTO lock_row (name, taken_at) VALUES (%s, %s)", (self._name, time.time())
            )
        except UniqueViolation:
            return False
        return True

    def release(self) -> None:
        """Delete the row."""
        self._connection.execute("DELETE FROM lock_row WHERE name = %s", (self._name,))


def clean(connection: Any, *, limit: float) -> None:
    """Delete the rows older than `limit` seconds; run by a scheduler every few seconds."""
    connection.execute("DELETE FROM lock_row WHERE taken_at < %s", (time.time() - limit,))
