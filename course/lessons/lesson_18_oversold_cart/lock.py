"""A cart, broken: it checks all items and then takes them."""

from typing import Any


class Cart:
    """`database` has `available(item)`, `take(item, n)`, `take_if(item, n)`, `commit`, `rollback`.

    `take` decreases the stock in any case, `take_if` only if there is enough; it returns the number
    of rows that it changed.  Both lock the item's row until the transaction ends.
    """

    def __init__(self, database: Any) -> None:
        self.database = database

    def buy(self, items: dict[str, int]) -> bool:
        """Buy all items of {item: quantity}, or none; return whether they were bought."""
        for item, quantity in items.items():
            if self.database.available(item) < quantity:
                return False
        for item, quantity in items.items():
            self.database.take(item, quantity)
        self.database.commit()
        return True
