"""The stock, broken: it sells no more than there is, and knows no request again."""

import uuid
from collections.abc import Callable
from typing import Any

from psycopg import OperationalError

TAKE = "UPDATE item SET available = available - 1 WHERE id = 1 AND available >= 1"
ORDER = "INSERT INTO orders (number, buyer) VALUES (%s, %s)"


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
        # Check and write in one statement: it waits for the row, and then looks again.
        if not connection.execute(TAKE).rowcount:
            return "sold out"
        connection.execute(ORDER, (uuid.uuid4().hex, buyer))
        connection.commit()
        return "sold"
