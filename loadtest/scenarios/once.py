"""The honest buyer: wants it once, waits while the shop is busy, and takes no for an answer."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.patience import order_patiently
from loadtest.shopper import Shopper


def buy_once(shopper: Shopper, random: Random) -> None:
    """Buy one."""
    order_patiently(shopper, shopper.wants(), random)
