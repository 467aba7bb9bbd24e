"""Buyers who have to pay on the payment provider's page: they pay, are declined, or leave."""

from __future__ import annotations

from random import Random
from urllib.error import URLError
from urllib.request import Request, urlopen

from loadtest.sale_roles import ON_PAGE
from loadtest.scenarios.asking import ATTEMPTS, MAX_WAIT, order_when_back
from loadtest.shopper import Shopper

# Seconds within which buyers come. If all came in the same second, the machine would be busy with
# their purchases while the first ones have to be paid.
COMING = 10.0
# Of those whose payment needs them, how many leave, and how many of the others are declined first.
LEAVE, DECLINED = 0.5, 0.3
# Most seconds that a buyer needs on the page; the units are held for longer than that.
THINK = 2.0
# Seconds to wait for the provider.
TIMEOUT = 10.0


def pay_on_page(shopper: Shopper, random: Random) -> None:
    """Buy, begin to pay, and pay on the provider's page; half of the buyers leave it instead."""
    shopper.sleep(random.random() * COMING)
    order = order_when_back(shopper, shopper.sale_of(ON_PAGE), 1, random).order
    if order is None:
        return
    page = begin_to_pay(shopper, order, random)
    if random.random() < LEAVE:
        # The unit has to come back on its own; some look what became of their order.
        shopper.sleep(random.random() * THINK)
        shopper.read(order)
        return
    shopper.sleep(random.random() * THINK)
    if page and random.random() < DECLINED:
        choose(page, "decline")
        page = begin_to_pay(shopper, order, random)
    if page:
        choose(page, "pay")
    for _ in range(2):
        shopper.sleep(0.5 + random.random())
        shopper.read(order)


def begin_to_pay(shopper: Shopper, order: str, random: Random) -> str:
    """Begin to pay, until the shop says on which page; empty if it says that this is impossible.

    After an attempt that was declined, the first answer may only say so.
    """
    for _ in range(ATTEMPTS):
        answer = shopper.pay(order)
        if not (answer.busy or answer.unknown or answer.declined):
            return answer.action_url
        shopper.sleep(MAX_WAIT * (0.5 + random.random() / 2))
    return ""


def choose(page: str, choice: str) -> None:
    """Make a choice on the provider's page. If it does not answer, nobody knows what came of it."""
    try:
        with urlopen(Request(page, f"choice={choice}".encode()), timeout=TIMEOUT) as answer:
            answer.read()
    except (URLError, OSError):
        return
