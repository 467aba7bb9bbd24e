"""A purchase, broken: an error at COMMIT is taken for a failure."""

from collections.abc import Callable
from typing import Any


class Sale:
    """`connect()` returns a connection with `insert_order(key)`, `commit()`, `find_order(key)`.

    Each of them raises `ConnectionError` if the connection is lost, and from then on always.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, key: str) -> str:
        """Tell the buyer "sold" or "refused"."""
        connection = self.connect()
        try:
            connection.insert_order(key)
            connection.commit()
        except ConnectionError:
            return "refused"
        return "sold"
