"""A cart: it checks and takes in one statement per item, and all carts in the same order."""

from typing import Any

TAKE = "UPDATE stock SET available = available - %s WHERE item = %s AND available >= %s"


class Cart:
    """`connection` is a psycopg connection, not in autocommit mode."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def buy(self, items: dict[str, int]) -> bool:
        """Buy all items of {item: quantity}, or none; return whether they were bought."""
        for item in sorted(items):  # otherwise two carts can wait for each other's rows
            if not self.connection.execute(TAKE, (items[item], item, items[item])).rowcount:
                self.connection.rollback()
                return False
        self.connection.commit()
        return True
