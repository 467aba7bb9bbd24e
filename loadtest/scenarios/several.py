"""An order of several units, or of several lines, of which parts can be given back."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from loadtest.cart import Cart
from loadtest.roles import BRIEF, LIMITED
from loadtest.sale import Sale
from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper

# Units of a line, at most.
MAX_UNITS = 6
# Of the orders, how many are carts.
CARTS = 0.3


class Several(NamedTuple):
    """An order, and one of its lines."""

    order: str
    sale: Sale
    quantity: int


def buy_several(shopper: Shopper, random: Random, role: str) -> Several | None:
    """Buy several units of the sale in a role, at times together with another sale's."""
    sale = shopper.sale_of(role)
    quantity = random.randint(min(2, sale.limit), min(MAX_UNITS, sale.limit))
    other = shopper.sale_of(LIMITED if role == BRIEF else BRIEF)
    if other != sale and random.random() < CARTS:
        answer = shopper.check_out(Cart.of({sale: quantity, other: 1}))
    else:
        purchase = shopper.wants(quantity, sale)
        answer = order_with_retries(shopper, purchase, random, also_unknown=True)
    return None if answer.order is None else Several(answer.order, sale, quantity)
