"""A purchase, broken: an error at COMMIT is taken for a failure."""

from collections.abc import Callable
from typing import Any

from psycopg import OperationalError


class Sale:
    """`connect()` returns a psycopg connection to a database with the table `orders` (key).

    It raises `OperationalError` if the connection is lost, and from then on always.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, key: str) -> str:
        """Tell the buyer "sold" or "refused"."""
        connection = self.connect()
        try:
            connection.execute("INSERT INTO orders (key) VALUES (%s)", (key,))
            connection.commit()
        except OperationalError:
            return "refused"
        return "sold"
