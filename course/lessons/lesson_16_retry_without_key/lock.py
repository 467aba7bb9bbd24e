"""A client of the shop, broken: it orders again whenever it gets no answer."""

from typing import Any


class Client:
    """`shop.buy(key)` places an order, once for each key; `ConnectionError` if there is no answer.

    A key of None counts as a new one each time.
    """

    def __init__(self, shop: Any) -> None:
        self.shop = shop

    def place(self) -> None:
        """Place one order, and try again until the shop has answered."""
        while True:
            try:
                self.shop.buy(None)
            except ConnectionError:
                continue
            return
