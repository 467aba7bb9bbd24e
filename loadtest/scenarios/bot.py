"""A script that fires from before the opening until the answer is sold out."""

from __future__ import annotations

from random import Random

from loadtest.shopper import Shopper

# Enough to go far beyond any limit; a shop that never says no must not keep a bot forever.
SHOTS = 20


def hammer(shopper: Shopper, random: Random) -> None:
    """Fire a volley before the opening and one after it, without a pause."""
    _fire(shopper, random)
    shopper.sale.wait_for_opening(shopper.sleep)
    _fire(shopper, random)


def _fire(shopper: Shopper, random: Random) -> None:
    """Order with a new key each time, one unit or as much as the limit allows."""
    for _ in range(SHOTS):
        answer = shopper.order(shopper.wants(random.choice([1, 1, 1, shopper.sale.limit])))
        if answer.sold_out or answer.ended:
            break
