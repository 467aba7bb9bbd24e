"""A buyer who wants one unit, waits while the shop is busy, and looks whether it is sold out."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def buy_once(shopper: Shopper, random: Random) -> None:
    """Buy one; if all are gone, look at the sale."""
    if order_with_retries(shopper, shopper.wants(), random).code == "sold_out":
        shopper.look()
