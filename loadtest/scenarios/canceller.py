"""A buyer who cancels: the unit goes back once, however often they cancel."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def cancel(shopper: Shopper, random: Random) -> None:
    """Buy one, cancel it; half of them cancel again or try to pay what they have cancelled."""
    answer = order_with_retries(shopper, shopper.wants(), random, also_unknown=True)
    if answer.order is None:
        return
    shopper.sleep(random.random() / 2)
    shopper.cancel(answer.order)
    if random.random() < 0.5:
        random.choice([shopper.cancel, shopper.pay])(answer.order)
