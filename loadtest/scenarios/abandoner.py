"""A buyer who reserves a unit and never pays."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def abandon(shopper: Shopper, random: Random) -> None:
    """Buy one and leave without paying; the reservation has to run out on its own."""
    order_with_retries(shopper, shopper.wants(), random, also_unknown=True)
