"""A buyer who lets an order run out, and watches it."""

from __future__ import annotations

from random import Random

from loadtest.roles import BRIEF
from loadtest.scenarios.deadline import seconds_to_pay
from loadtest.scenarios.retries import order_when_back
from loadtest.shopper import Shopper


def let_expire(shopper: Shopper, random: Random) -> None:
    """Buy up to the limit, never pay in time, and look at the order before and after its end."""
    sale = shopper.sale_of(BRIEF)
    answer = order_when_back(shopper, sale, random.randint(1, sale.limit), random)
    if answer.order is None:
        return
    seconds = seconds_to_pay(sale, answer)
    shopper.sleep(seconds * (0.6 + 0.3 * random.random()))
    shopper.read(answer.order)
    shopper.sleep(seconds * 0.4)
    for _ in range(2):
        shopper.read(answer.order)
        shopper.sleep(1 + random.random())
    if random.random() < 0.5:
        shopper.pay(answer.order)
