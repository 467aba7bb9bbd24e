"""A buyer who pays at the last moment, or a moment after it."""

from __future__ import annotations

from functools import partial
from random import Random

from loadtest.roles import BRIEF
from loadtest.scenarios.at_once import at_once
from loadtest.scenarios.deadline import seconds_to_pay
from loadtest.scenarios.retries import order_when_back
from loadtest.shopper import Shopper

# Seconds before and after the deadline within which they pay.
BEFORE, AFTER = 0.8, 0.3
TIMES = 2


def pay_at_deadline(shopper: Shopper, random: Random) -> None:
    """Pay around the deadline, at times twice at once; see later what became of it."""
    sale = shopper.sale_of(BRIEF)
    for _ in range(TIMES):
        answer = order_when_back(shopper, sale, 1, random)
        if answer.order is None:
            return
        shopper.sleep(max(0.0, seconds_to_pay(sale, answer) + random.uniform(-BEFORE, AFTER)))
        at_once(shopper, [partial(shopper.pay, answer.order)] * random.randint(1, 2))
        shopper.read(answer.order)
        shopper.sleep(1.5 + random.random())
        shopper.read(answer.order)
