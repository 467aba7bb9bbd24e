"""A buyer who wants more than the limit allows, with a new key each time."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def want_more(shopper: Shopper, random: Random) -> None:
    """Buy up to the limit, then one or two more times."""
    for _ in range(shopper.sale.limit + random.randint(1, 2)):
        order_with_retries(shopper, shopper.wants(), random)
