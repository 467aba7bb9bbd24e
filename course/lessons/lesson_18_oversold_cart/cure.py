"""A cart: it checks and takes in one statement per item, and all carts in the same order."""

from typing import Any


class Cart:
    """`database` has `take_if(item, n)`, `commit` and `rollback`."""

    def __init__(self, database: Any) -> None:
        self.database = database

    def buy(self, items: dict[str, int]) -> bool:
        """Buy all items of {item: quantity}, or none; return whether they were bought."""
        for item in sorted(items):  # otherwise two carts can wait for each other's rows
            if not self.database.take_if(item, items[item]):
                self.database.rollback()
                return False
        self.database.commit()
        return True
