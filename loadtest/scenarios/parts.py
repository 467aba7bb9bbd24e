"""Buyers who order several units or from several sales, and give parts of that back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from loadtest.full_shop import Answer
from loadtest.purchases import Cart, Part, Sale
from loadtest.sale_roles import BRIEF, DRAWN, LIMITED
from loadtest.scenarios.asking import at_once, order_with_retries, pay_until_paid
from loadtest.shopper import Shopper

# Lines of a cart, at most; how many of them are for more than one unit.
MAX_LINES, SEVERAL = 3, 0.25
# Of the carts, how many are cancelled in one line.
CANCELLED = 0.3
# Units of an order of which parts are given back, at most; how many of these orders are carts.
MAX_UNITS, CARTS = 6, 0.3
# Orders of which one buyer gives parts back.
TIMES = 2


def fill_cart(shopper: Shopper, random: Random) -> None:
    """Buy some of each of some sales, all or nothing; ask again, also for other lines; maybe pay.

    The cart is sent once more as it was or with its lines in another order, and with a line less
    and one more, which is refused. Some cancel a line and pay for the others.
    """
    sales = list(shopper.crowd.sales.values())
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
        shopper.ask(shopper.crowd.shop.invalid.smaller_cart(cart))
    # A draw refuses every cart, whatever its key.
    others = {line.sale for line in cart.lines} | {shopper.crowd.sales.get(DRAWN)}
    if more := [sale for sale in sales if sale not in others]:
        shopper.ask(shopper.crowd.shop.invalid.larger_cart(cart, random.choice(more)))
    if len(cart.lines) > 1 and random.random() < CANCELLED:
        line = random.choice(cart.lines)
        shopper.cancel(answer.order, Part(line.quantity, line.sale))
    if random.random() < 0.5:
        shopper.pay(answer.order)


def cancel_parts(shopper: Shopper, random: Random) -> None:
    """Cancel parts of unpaid orders, and all of it.

    A key under which a unit was cancelled returns none when the rest is paid.
    """
    for _ in range(TIMES):
        bought = _buy_several(shopper, random, random.choice([LIMITED, BRIEF]))
        if bought is None:
            continue
        order = bought.order
        one = _give_parts(shopper, bought, Shopper.cancel, random)
        cancel, pay = (Shopper.cancel, order), (Shopper.pay, order)
        unit_by_unit = [(*cancel, Part(1, bought.sale)) for _ in range(bought.quantity)]
        at_once(shopper, random.choice([[cancel, cancel], [cancel, pay], [], unit_by_unit]))
        shopper.sleep(random.random() / 2)
        shopper.cancel(order, one)
        shopper.refund(order, one)
        shopper.read(order)


def refund_parts(shopper: Shopper, random: Random) -> None:
    """Return parts of paid orders, and all of it."""
    for _ in range(TIMES):
        bought = _buy_several(shopper, random, random.choice([LIMITED, LIMITED, BRIEF]))
        if bought is None or not pay_until_paid(shopper, bought.order, random):
            continue
        one = _give_parts(shopper, bought, Shopper.refund, random)
        refund = (Shopper.refund, bought.order)
        one_more = (*refund, Part(1, bought.sale))
        at_once(shopper, random.choice([[refund, refund], [refund, one_more], []]))
        shopper.sleep(random.random() / 2)
        shopper.refund(bought.order, one)
        shopper.read(bought.order)


class _Bought(NamedTuple):
    """An order, and one of its lines."""

    order: str
    sale: Sale
    quantity: int


def _quantity(random: Random) -> int:
    return random.randint(2, 3) if random.random() < SEVERAL else 1


def _buy_several(shopper: Shopper, random: Random, role: str) -> _Bought | None:
    """Buy several units of the sale in a role, at times together with another sale's."""
    sale = shopper.sale_of(role)
    quantity = random.randint(min(2, sale.limit), min(MAX_UNITS, sale.limit))
    other = shopper.sale_of(LIMITED if role == BRIEF else BRIEF)
    if other != sale and random.random() < CARTS:
        answer = shopper.check_out(Cart.of({sale: quantity, other: 1}))
    else:
        purchase = shopper.wants(quantity, sale)
        answer = order_with_retries(shopper, purchase, random, also_unknown=True)
    return None if answer.order is None else _Bought(answer.order, sale, quantity)


def _give_parts(
    shopper: Shopper, bought: _Bought, give: Callable[..., Answer], random: Random
) -> Part:
    """Give single units back under equal and different keys at once, then too many.

    Returns the part whose key was used most.
    """
    order, sale, quantity = bought
    one, other = Part(1, sale), Part(max(1, quantity // 2), sale, named=random.random() < 0.5)
    at_once(shopper, [(give, order, part) for part in (one, one, other)])
    give(shopper, order, Part(quantity, sale))
    give(shopper, order, replace(one, quantity=2))
    return one
