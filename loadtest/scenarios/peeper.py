"""A buyer who tries to see and to change what is another buyer's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from loadtest.purchases import Part
from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.answers import NOT_THEIRS

TIMES = 3
# Orders of others that are tried each time, and the ways in which each is.
ORDERS, WAYS = 2, 4


def peep(shopper: Shopper, random: Random) -> None:
    """Buy one, then look at lists, and try orders that others got and the numbers next to them."""
    order_with_retries(shopper, shopper.wants(), random, also_unknown=True)
    for _ in range(TIMES):
        shopper.sleep(0.3 + random.random())
        shopper.look()
        shopper.see_orders()
        shopper.see_sale()
        for order in shopper.known.of_others(shopper.name, random, ORDERS):
            _try(shopper, order, random)
            neighbour = str(max(1, int(order) + random.choice([-1, 1])))
            if not shopper.known.is_of(shopper.name, neighbour):
                _try(shopper, neighbour, random)


def _try(shopper: Shopper, order: str, random: Random) -> None:
    part = Part(1, shopper.sale)
    ways: list[Callable[..., object]] = [
        shopper.read,
        shopper.see_order,
        shopper.see_mails,
        shopper.pay,
        shopper.cancel,
        shopper.refund,
        partial(shopper.cancel, part=part),
        partial(shopper.refund, part=part),
    ]
    for way in random.sample(ways, WAYS):
        way(order, expects=NOT_THEIRS)
