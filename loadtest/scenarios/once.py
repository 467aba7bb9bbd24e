"""A buyer who wants one unit, waits while the shop is busy, and accepts a refusal."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def buy_once(shopper: Shopper, random: Random) -> None:
    """Buy one."""
    order_with_retries(shopper, shopper.wants(), random)
