"""Programs that fire, and buyers who try what is not theirs or what the shop must refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from loadtest.purchases import Part
from loadtest.scenarios.asking import buy_one, order_with_retries
from loadtest.shopper import Shopper

# Enough to go far beyond any limit; a shop that never says no must not keep a bot forever.
SHOTS = 20
# How often a buyer tries others' orders; how many each time, and the ways in which each is.
TIMES, ORDERS, WAYS = 3, 2, 4


def hammer(shopper: Shopper, random: Random) -> None:
    """Fire a volley before the opening and one after it, without a pause."""
    _fire(shopper, random)
    shopper.sale.wait_for_opening(shopper.sleep)
    _fire(shopper, random)


def _fire(shopper: Shopper, random: Random) -> None:
    """Order with a new key each time, one unit or as much as the limit allows."""
    for _ in range(SHOTS):
        answer = shopper.order(shopper.wants(random.choice([1, 1, 1, shopper.sale.limit])))
        if answer.sold_out or answer.ended:
            break


def send_invalid(shopper: Shopper, random: Random) -> None:
    """Buy one, then send an invalid request of each kind about it, in any order."""
    purchase = shopper.wants()
    order = order_with_retries(shopper, purchase, random, also_unknown=True).order
    requests = list(shopper.crowd.shop.invalid.invalid_requests(purchase, order, shopper.token))
    for request in random.sample(requests, len(requests)):
        shopper.ask(request)
        shopper.sleep(random.random() / 10)


def peep(shopper: Shopper, random: Random) -> None:
    """Buy one, then look at lists, and try orders that others got and the numbers next to them."""
    buy_one(shopper, random)
    for _ in range(TIMES):
        shopper.sleep(0.3 + random.random())
        shopper.look()
        shopper.see_orders()
        shopper.see_sale()
        for order in shopper.crowd.known.of_others(shopper.name, random, ORDERS):
            _try(shopper, order, random)
            neighbour = str(max(1, int(order) + random.choice([-1, 1])))
            if not shopper.crowd.known.is_of(shopper.name, neighbour):
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
        way(order)
