"""A buyer who cancels when the order runs out by itself, or is being paid."""

from __future__ import annotations

from functools import partial
from random import Random

from loadtest.roles import BRIEF
from loadtest.scenarios.at_once import at_once
from loadtest.scenarios.deadline import seconds_to_pay
from loadtest.scenarios.retries import order_when_back
from loadtest.shopper import Shopper

# Seconds around the deadline within which they cancel.
AROUND = 0.4
# How often, of all times, they pay in another window at the same moment.
TORN = 0.4


def cancel_late(shopper: Shopper, random: Random) -> None:
    """Cancel around the deadline, and once more after it."""
    sale = shopper.sale_of(BRIEF)
    answer = order_when_back(shopper, sale, random.randint(1, sale.limit), random)
    if answer.order is None:
        return
    shopper.sleep(max(0.0, seconds_to_pay(sale, answer) + random.uniform(-AROUND, AROUND)))
    other = shopper.pay if random.random() < TORN else shopper.cancel
    at_once(shopper, [partial(shopper.cancel, answer.order), partial(other, answer.order)])
    shopper.sleep(1 + random.random())
    shopper.cancel(answer.order)
    shopper.read(answer.order)
