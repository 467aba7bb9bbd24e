"""A purchase: after an error at COMMIT the outcome is unknown, so it is looked up."""

from collections.abc import Callable
from typing import Any

from psycopg import OperationalError


class Sale:
    """`connect()` returns a psycopg connection to a database with the table `orders` (key)."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, key: str) -> str:
        """Tell the buyer "sold" or "refused"."""
        connection = self.connect()
        try:
            connection.execute("INSERT INTO orders (key) VALUES (%s)", (key,))
            connection.commit()
        except OperationalError:
            # The commit may have happened.  Only the database knows, on a new connection.
            found = self.connect().execute("SELECT key FROM orders WHERE key = %s", (key,))
            return "sold" if found.rowcount else "refused"
        return "sold"
