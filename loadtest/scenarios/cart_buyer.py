"""A buyer who orders from several sales at once, all or nothing, and sends the cart again.

Once more as it was or with its lines in another order; with a line less and with one more, which is
refused. Some cancel a line and pay for the others.
"""

from __future__ import annotations

from random import Random

from loadtest.cart import Cart
from loadtest.purchases import Part
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.invalid import larger_cart, smaller_cart

# Lines of a cart, at most.
MAX_LINES = 3
# Of the lines, how many are for more than one unit.
SEVERAL = 0.25
# Of the carts, how many are cancelled in one line.
CANCELLED = 0.3


def fill_cart(shopper: Shopper, random: Random) -> None:
    """Buy some of each of some sales, and sometimes pay."""
    sales = list(shopper.sales.values())
    number = random.randint(min(2, len(sales)), min(MAX_LINES, len(sales)))
    cart = Cart.of({sale: _quantity(random) for sale in random.sample(sales, number)})
    answer = shopper.check_out(cart)
    if answer.unknown or random.random() < 0.3:
        shopper.sleep(max(answer.retry_after, 0.1))
        answer = shopper.check_out(cart)
    if answer.order is None:
        return
    if random.random() < 0.5:
        shopper.check_out(cart.reordered())
    if len(cart.lines) > 1:
        shopper.send_invalid(smaller_cart(cart))
    bought = {line.sale for line in cart.lines}
    if more := [sale for sale in sales if sale not in bought]:
        shopper.send_invalid(larger_cart(cart, random.choice(more)))
    if len(cart.lines) > 1 and random.random() < CANCELLED:
        line = random.choice(cart.lines)
        shopper.cancel(answer.order, Part(line.quantity, line.sale))
    if random.random() < 0.5:
        shopper.pay(answer.order)


def _quantity(random: Random) -> int:
    return random.randint(2, 3) if random.random() < SEVERAL else 1
