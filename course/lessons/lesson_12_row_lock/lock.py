"""SELECT … FOR UPDATE on a lock row, released by COMMIT."""

from typing import Any

TABLE = "CREATE TABLE IF NOT EXISTS lock_row (name text PRIMARY KEY, taken_at double precision)"


class ForUpdateLock:
    """`connection` is a psycopg connection, not in autocommit mode, on a database with `TABLE`."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._name = name

    def acquire(self, _timeout: float = 0.0) -> bool:
        """Wait in the database's queue until the row is ours; there is no time-out."""
        self._connection.execute(
            "SELECT name FROM lock_row WHERE name = %s FOR UPDATE",
            (self._name,),
        )
        return True

    def release(self) -> None:
        """End the transaction, which releases the lock."""
        self._connection.commit()
