"""A buyer who clicks twice: one key, two requests on two connections at the same moment."""

from __future__ import annotations

from functools import partial
from random import Random

from loadtest.scenarios.at_once import at_once
from loadtest.shopper import Shopper


def send_twice(shopper: Shopper, random: Random) -> None:
    """Send the same purchase twice at once, and a third time when both answers are here."""
    purchase = shopper.wants()
    click = partial(shopper.order, purchase)
    at_once(shopper, [click, click])
    if random.random() < 0.5:
        shopper.order(purchase)
