"""The one who takes a unit out of the stock and is never seen again."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.patience import order_patiently
from loadtest.shopper import Shopper


def abandon(shopper: Shopper, random: Random) -> None:
    """Buy one and leave without paying; the reservation has to run out on its own."""
    order_patiently(shopper, shopper.wants(), random, also_unknown=True)
