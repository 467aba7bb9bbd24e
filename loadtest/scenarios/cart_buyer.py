"""A buyer who orders from several sales at once, all or nothing, and sends the cart again.

Once more as it was or with its lines in another order, and once with a line less, which is refused.
"""

from __future__ import annotations

from random import Random

from loadtest.cart import Cart
from loadtest.history import INFO, classify
from loadtest.invalid import smaller_cart
from loadtest.shopper import Shopper

# Lines of a cart, at most.
MOST_LINES = 3
# Of the lines, how many are for more than one unit.
SEVERAL = 0.25


def fill_cart(shopper: Shopper, random: Random) -> None:
    """Buy some of each of some sales, and sometimes pay."""
    sales = list(shopper.sales.values())
    number = random.randint(min(2, len(sales)), min(MOST_LINES, len(sales)))
    cart = Cart.of({sale: _quantity(random) for sale in random.sample(sales, number)})
    answer = shopper.check_out(cart)
    if classify(answer.status, answer.code, answer.order) == INFO or random.random() < 0.3:
        shopper.sleep(max(answer.retry_after, 0.1))
        answer = shopper.check_out(cart)
    if answer.order is None:
        return
    if random.random() < 0.5:
        shopper.check_out(cart.reordered())
    if len(cart.lines) > 1:
        shopper.send_invalid(smaller_cart(cart))
    if random.random() < 0.5:
        shopper.pay(answer.order)


def _quantity(random: Random) -> int:
    return random.randint(2, 3) if random.random() < SEVERAL else 1
