"""The stock, broken: read, check, write, which is what most people write first."""

import uuid
from collections.abc import Callable
from typing import Any

from psycopg import OperationalError


class Stock:
    """`connect()` returns a psycopg connection: `execute`, `commit`, `rollback`, `close`.

    The tables are `item` (id, available), which has item 1, and `orders` (number, buyer). The first
    column is the primary key. What is not committed when `buy` ends is rolled back.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, buyer: str, key: str) -> str:
        """Sell a unit: "sold" or "sold out"; "failed" if nothing was sold because of an error.

        `key` is an id of the request: if the buyer sends it again, it has the same one.
        """
        connection = self.connect()
        try:
            return self._sell(connection, buyer)
        except OperationalError:  # the connection was lost
            return "failed"

    def _sell(self, connection: Any, buyer: str) -> str:
        row = connection.execute("SELECT available FROM item WHERE id = 1").fetchone()
        available = row[0]
        if available < 1:
            return "sold out"
        connection.execute("UPDATE item SET available = %s WHERE id = 1", (available - 1,))
        number = uuid.uuid4().hex
        connection.execute("INSERT INTO orders (number, buyer) VALUES (%s, %s)", (number, buyer))
        connection.commit()
        return "sold"
