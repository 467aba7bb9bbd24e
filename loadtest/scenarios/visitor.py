"""A visitor who loads the pages that a browser loads, in a sale that lasts."""

from __future__ import annotations

from random import Random

from loadtest.shopper import Shopper

ROUNDS = 10
"""How often a visitor loads every page before another buyer takes the place."""


def browse(shopper: Shopper, random: Random) -> None:
    """Buy one, then load the home page, the sale's page and the order's page in turn."""
    order = shopper.order(shopper.wants()).order
    for _ in range(ROUNDS):
        for see in (shopper.see_home, shopper.see_sale):
            see()
            shopper.sleep(_pause(random))
        if order is not None:
            shopper.see_order(order)
            shopper.sleep(_pause(random))


def _pause(random: Random) -> float:
    """Seconds between two pages: often enough to judge a rate, too seldom to slow buyers down."""
    return 0.1 + 0.4 * random.random()
