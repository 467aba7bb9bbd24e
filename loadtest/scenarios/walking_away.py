"""Buyers who have to pay on the payment provider's page: they pay, are declined, or leave."""

from __future__ import annotations

from random import Random
from urllib.error import URLError
from urllib.request import Request, urlopen

from loadtest.roles import ON_PAGE
from loadtest.scenarios.asking import order_when_back
from loadtest.shopper import Shopper

# Of those whose payment needs them, how many leave, and how many of the others are declined first.
LEAVE, DECLINED = 0.5, 0.3
# Most seconds that a buyer needs on the page; the units are held for longer than that.
THINK = 2.0
# Seconds to wait for the provider.
TIMEOUT = 10.0


def pay_on_page(shopper: Shopper, random: Random) -> None:
    """Buy, begin to pay, and pay on the provider's page; half of the buyers leave it instead."""
    order = order_when_back(shopper, shopper.sale_of(ON_PAGE), 1, random).order
    if order is None:
        return
    page = shopper.pay(order).action_url
    if random.random() < LEAVE:
        # The unit has to come back on its own; some look what became of their order.
        shopper.sleep(random.random() * THINK)
        shopper.read(order)
        return
    shopper.sleep(random.random() * THINK)
    if page and random.random() < DECLINED:
        choose(page, "decline")
        # The first answer may only say that the attempt has failed.
        page = shopper.pay(order).action_url or shopper.pay(order).action_url
    if page:
        choose(page, "pay")
    for _ in range(2):
        shopper.sleep(0.5 + random.random())
        shopper.read(order)


def choose(page: str, choice: str) -> None:
    """Make a choice on the provider's page. If it does not answer, nobody knows what came of it."""
    try:
        with urlopen(Request(page, f"choice={choice}".encode()), timeout=TIMEOUT) as answer:
            answer.read()
    except (URLError, OSError):
        return
