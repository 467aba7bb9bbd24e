"""A buyer who asks for a refund, at times from two windows at once."""

from __future__ import annotations

from functools import partial
from random import Random

from loadtest.scenarios.at_once import at_once
from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def pay_and_refund(shopper: Shopper, random: Random) -> None:
    """Buy one, pay it, ask for the money back; half of them ask twice at the same moment."""
    answer = order_with_retries(shopper, shopper.wants(), random, also_unknown=True)
    if answer.order is None:
        return
    shopper.pay(answer.order)
    shopper.sleep(random.random() / 2)
    clicks = 1 if random.random() < 0.5 else 2
    at_once(shopper, [partial(shopper.refund, answer.order)] * clicks)
