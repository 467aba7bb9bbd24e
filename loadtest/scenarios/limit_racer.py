"""A buyer who tries to get past the limit: several quantities, several windows, one moment."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from loadtest.roles import LIMITED
from loadtest.scenarios.at_once import at_once
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.answers import KEY_REUSED

ROUNDS = 4
# Purchases at the same moment, at most.
WINDOWS = 4
# Of the orders, how many are given up, so that the next round has something to race for.
GIVEN_UP = 0.7


def race_limit(shopper: Shopper, random: Random) -> None:
    """Ask for more than the limit at once, under different and under equal keys."""
    sale = shopper.sale_of(LIMITED)
    for _ in range(ROUNDS):
        wanted = [
            shopper.wants(random.randint(1, sale.limit), sale)
            for _ in range(random.randint(2, WINDOWS))
        ]
        wanted.append(random.choice(wanted))
        if random.random() < 0.3:
            one = random.choice(wanted)
            wanted.append(replace(one, quantity=one.quantity % sale.limit + 1))
        calls = [partial(shopper.order, each, expects=KEY_REUSED) for each in wanted]
        orders = {answer.order for answer in at_once(shopper, calls) if answer.order is not None}
        for order in sorted(orders):
            if random.random() < GIVEN_UP:
                shopper.cancel(order)
        shopper.sleep(0.3 + random.random() / 2)
