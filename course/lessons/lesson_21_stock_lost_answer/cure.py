"""The stock: no unit too many, each request once, and after a lost answer the question again."""

from collections.abc import Callable
from typing import Any

from psycopg import OperationalError

TAKE = "UPDATE item SET available = available - 1 WHERE id = 1 AND available >= 1"
ORDER = "INSERT INTO orders (number, buyer) VALUES (%s, %s) ON CONFLICT DO NOTHING"

TRIES = 3


class Stock:
    """`connect()` returns a psycopg connection: `execute`, `commit`, `rollback`, `close`.

    The tables are `item` (id, available), which has item 1, and `orders` (number, buyer). The first
    column is the primary key. What is not committed when `buy` ends is rolled back.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, buyer: str, key: str) -> str:
        """Sell a unit: "sold" or "sold out"; "unknown" if it cannot be found out."""
        for _try in range(TRIES):
            try:
                # The same again, on a new connection: the key makes it harmless, and it waits for a
                # first try that the database may still be committing, which a SELECT would not.
                return self._sell(self.connect(), buyer, key)
            except OperationalError:
                continue
        return "unknown"

    def _sell(self, connection: Any, buyer: str, key: str) -> str:
        if not connection.execute(ORDER, (key, buyer)).rowcount:
            return "sold"
        if not connection.execute(TAKE).rowcount:
            connection.rollback()
            return "sold out"
        connection.commit()
        return "sold"
