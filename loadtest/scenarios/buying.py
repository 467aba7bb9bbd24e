"""Buyers who buy, look, and buy again."""

from __future__ import annotations

import time
from random import Random

from loadtest.sale_roles import BRIEF
from loadtest.scenarios.asking import at_once, order_with_retries
from loadtest.shopper import Shopper

# Seconds after which a buyer who comes again gives up, and between two attempts.
GIVE_UP_AFTER, PAUSE = 16.0, 0.8
# How often a visitor loads every page before another buyer takes the place.
ROUNDS = 10


def buy_once(shopper: Shopper, random: Random) -> None:
    """Buy one; wait while the shop is busy, and accept a refusal."""
    order_with_retries(shopper, shopper.wants(), random)


def insist(shopper: Shopper, random: Random) -> None:
    """Buy until the answer is known, read the order, then ask once or twice more with the key."""
    purchase = shopper.wants()
    answer = order_with_retries(shopper, purchase, random, also_unknown=True)
    if answer.order is not None:
        shopper.read(answer.order)
    for _ in range(random.randint(1, 2)):
        shopper.order(purchase)


def send_twice(shopper: Shopper, random: Random) -> None:
    """Send the same purchase twice at once, and a third time when both answers are here."""
    purchase = shopper.wants()
    at_once(shopper, [(Shopper.order, purchase)] * 2)
    if random.random() < 0.5:
        shopper.order(purchase)


def want_more(shopper: Shopper, random: Random) -> None:
    """Buy up to the limit, then one or two more times, with a new key each time."""
    for _ in range(shopper.sale.limit + random.randint(1, 2)):
        order_with_retries(shopper, shopper.wants(), random)


def come_again(shopper: Shopper, random: Random) -> None:
    """Ask for one unit of each of two sales, with a new key each time, until there is one."""
    wanted = {shopper.sale, shopper.sale_of(BRIEF)}
    end = time.monotonic() + GIVE_UP_AFTER
    while wanted and time.monotonic() < end:
        for sale in sorted(wanted, key=lambda sale: sale.id):
            answer = shopper.order(shopper.wants(1, sale))
            if answer.order is not None or answer.limit_reached:
                wanted.remove(sale)
            elif answer.sold_out:
                shopper.look(sale)
        shopper.sleep(PAUSE * (0.5 + random.random()))


def look_around(shopper: Shopper, random: Random) -> None:
    """Look at the sale a few times."""
    for _ in range(random.randint(1, 4)):
        shopper.look()
        shopper.sleep(random.random() / 2)


def browse(shopper: Shopper, random: Random) -> None:
    """Buy one, then load the home page, the sale's page and the order's page in turn."""

    def pause() -> None:
        # Often enough to judge a rate, too seldom to slow buyers down.
        shopper.sleep(0.1 + 0.4 * random.random())

    order = shopper.order(shopper.wants()).order
    for _ in range(ROUNDS):
        for see in (shopper.see_home, shopper.see_sale):
            see()
            pause()
        if order is not None:
            shopper.see_order(order)
            pause()
