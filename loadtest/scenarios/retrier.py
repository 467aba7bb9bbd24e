"""A buyer who retries with the same key, after an unknown answer and after a good one."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def insist(shopper: Shopper, random: Random) -> None:
    """Buy until the answer is known, read the order, then ask once or twice more with the key."""
    purchase = shopper.wants()
    answer = order_with_retries(shopper, purchase, random, also_unknown=True)
    if answer.order is not None:
        shopper.read(answer.order)
    for _ in range(random.randint(1, 2)):
        shopper.order(purchase)
