"""A patient buyer, who keeps trying while a sale is paused, closed and opened again."""

from __future__ import annotations

import time
from random import Random

from loadtest.purchases import Purchase
from loadtest.roles import TIMED
from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.invalid import anothers_key

# Seconds: how long a buyer tries, and how long a sale has been over when they give up.
GIVE_UP_AFTER, OVER = 18.0, 3.5
# Orders kept at a time, and paid in all: with more, the limit would be all that they are told.
KEPT, PAID = 2, 4
# Keys that are asked for once more when the sale is over.
ASKED_AGAIN = 5


def outlast(shopper: Shopper, random: Random) -> None:
    """Buy one by one whatever the shop says, until it is over; then repeat old purchases."""
    order_with_retries(shopper, shopper.wants(), random)
    sale = shopper.sale_of(TIMED)
    kept: list[tuple[Purchase, str]] = []
    refused: list[Purchase] = []
    paid, over_since = 0, None
    end = time.monotonic() + GIVE_UP_AFTER
    while (now := time.monotonic()) < end:
        purchase = shopper.wants(random.choice([1, 1, 2]), sale)
        answer = shopper.order(purchase)
        if answer.order is not None:
            kept.append((purchase, answer.order))
        else:
            refused.append(purchase)
        over_since = (over_since or now) if answer.ended else None
        if over_since is not None and now - over_since > OVER:
            break
        if kept and random.random() < 0.3:
            shopper.order(kept[-1][0])
        if len(kept) > KEPT:
            _, order = kept.pop(0)
            if paid < PAID and random.random() < 0.5:
                shopper.pay(order)
                paid += 1
            else:
                shopper.cancel(order)
        shopper.sleep(0.2 + 0.3 * random.random())
    for purchase in [*(each for each, _ in kept), *refused[-ASKED_AGAIN:]]:
        shopper.order(purchase)
    if kept and shopper.friend is not None:
        _use_anothers_key(shopper.friend(1), kept[-1][0])


def _use_anothers_key(other: Shopper, purchase: Purchase) -> None:
    """Ask for more than anyone may have under another buyer's key: the sale is over, not known."""
    other.send_invalid(anothers_key(purchase, ended=True))
    other.leave()
