"""A purchase: after an error at COMMIT the outcome is unknown, so it is looked up."""

from collections.abc import Callable
from typing import Any


class Sale:
    """`connect()` returns a connection with `insert_order(key)`, `commit()`, `find_order(key)`."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def buy(self, key: str) -> str:
        """Tell the buyer "sold" or "refused"."""
        connection = self.connect()
        try:
            connection.insert_order(key)
            connection.commit()
        except ConnectionError:
            # The commit may have happened.  Only the database knows, on a new connection.
            return "sold" if self.connect().find_order(key) else "refused"
        return "sold"
