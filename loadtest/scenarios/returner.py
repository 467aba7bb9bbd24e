"""A buyer who is told that all is sold out, and comes again until units have come back."""

from __future__ import annotations

import time
from random import Random

from loadtest.roles import BRIEF
from loadtest.shopper import Shopper

# Seconds after which a buyer gives up, and between two attempts.
GIVE_UP_AFTER, PAUSE = 16.0, 0.8


def come_again(shopper: Shopper, random: Random) -> None:
    """Ask for one unit of each of two sales, with a new key each time, until there is one."""
    wanted = {shopper.sale, shopper.sale_of(BRIEF)}
    end = time.monotonic() + GIVE_UP_AFTER
    while wanted and time.monotonic() < end:
        for sale in sorted(wanted, key=lambda each: each.id):
            answer = shopper.order(shopper.wants(1, sale))
            if answer.order is not None or answer.limit_reached:
                wanted.remove(sale)
            elif answer.sold_out:
                shopper.look(sale)
        shopper.sleep(PAUSE * (0.5 + random.random()))
