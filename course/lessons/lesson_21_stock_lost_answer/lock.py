"""The stock, broken: each request is served once, and a lost answer is taken for a failure."""

from collections.abc import Callable
from typing import Any

from psycopg import OperationalError

TAKE = "UPDATE item SET available = available - 1 WHERE id = 1 AND available >= 1"
ORDER = "INSERT INTO orders (number, buyer) VALUES (%s, %s) ON CONFLICT DO NOTHING"


class Stock:
    """`connect()` returns a psycopg connection: `execute`, `commit`, `rollback`, `close`.

    The tables are `item` (id, available), which has item 1, and `orders` (number, buyer). The first
    column is the primary key. What is not committed when `buy` ends is rolled back.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, buyer: str, key: str) -> str:
        """Sell a unit: "sold" or "sold out"; "failed" if nothing was sold because of an error.

        `key` is an id of the request: if the buyer sends it again, it has the same one. "unknown"
        is an answer, too, if it cannot be found out whether the unit was sold.
        """
        connection = self.connect()
        try:
            return self._sell(connection, buyer, key)
        except OperationalError:  # the connection was lost
            return "failed"

    def _sell(self, connection: Any, buyer: str, key: str) -> str:
        # The order first, under the key: if it is there, or comes at the same time, it is the same.
        if not connection.execute(ORDER, (key, buyer)).rowcount:
            return "sold"
        if not connection.execute(TAKE).rowcount:
            connection.rollback()
            return "sold out"
        connection.commit()
        return "sold"
