"""A client of the shop: all tries for one order have one key."""

import uuid
from typing import Any


class Client:
    """`shop.buy(key)` places an order once for each key; `ConnectionError`: there is no answer."""

    def __init__(self, shop: Any) -> None:
        self.shop = shop

    def place(self) -> None:
        """Place one order, and try again until the shop has answered."""
        key = uuid.uuid4().hex  # before the loop: a try may have succeeded without an answer
        while True:
            try:
                self.shop.buy(key)
            except ConnectionError:
                continue
            return
