"""A cart, broken: it checks all items and then takes them."""

from typing import Any

CHECK = "SELECT available FROM stock WHERE item = %s"
TAKE = "UPDATE stock SET available = available - %s WHERE item = %s"


class Cart:
    """`connection` is a psycopg connection, not in autocommit mode.

    An UPDATE locks its row until the transaction ends; a SELECT sees what is committed.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def buy(self, items: dict[str, int]) -> bool:
        """Buy all items of {item: quantity}, or none; return whether they were bought."""
        for item, quantity in items.items():
            (available,) = self.connection.execute(CHECK, (item,)).fetchone()
            if available < quantity:
                return False
        for item, quantity in items.items():
            self.connection.execute(TAKE, (quantity, item))
        self.connection.commit()
        return True
