"""A buyer who pays, and sometimes presses the button twice."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def buy_and_pay(shopper: Shopper, random: Random) -> None:
    """Buy one, think, pay; one in four pays again."""
    answer = order_with_retries(shopper, shopper.wants(), random, also_unknown=True)
    if answer.order is None:
        return
    shopper.sleep(random.random() / 2)
    shopper.pay(answer.order)
    if random.random() < 0.25:
        shopper.pay(answer.order)
