"""A buyer who orders from several sales at once, all or nothing, and retries the same cart."""

from __future__ import annotations

from random import Random

from loadtest.cart import Cart
from loadtest.history import INFO, classify
from loadtest.shopper import Shopper


def fill_cart(shopper: Shopper, random: Random) -> None:
    """Buy one of each of some sales, and sometimes pay."""
    sales = [shopper.sale, *shopper.others]
    cart = Cart.of(random.sample(sales, random.randint(min(2, len(sales)), len(sales))))
    answer = shopper.check_out(cart)
    if classify(answer.status, answer.code, answer.order) == INFO or random.random() < 0.3:
        shopper.sleep(max(answer.retry_after, 0.1))
        answer = shopper.check_out(cart)
    if answer.order is not None and random.random() < 0.5:
        shopper.pay(answer.order)
