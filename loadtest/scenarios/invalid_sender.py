"""A program that sends what the shop must refuse: without a key, with wrong values, unsigned."""

from __future__ import annotations

from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.invalid import invalid_requests


def send_invalid(shopper: Shopper, random: Random) -> None:
    """Buy one, then send an invalid request of each kind about it, in any order."""
    purchase = shopper.wants()
    order = order_with_retries(shopper, purchase, random, also_unknown=True).order
    requests = list(invalid_requests(purchase, order, shopper.token))
    for request in random.sample(requests, len(requests)):
        shopper.send_invalid(request)
        shopper.sleep(random.random() / 10)
