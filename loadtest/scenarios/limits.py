"""Buyers who try to get past a limit, or past the end of a sale."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

from loadtest.purchases import Purchase
from loadtest.sale_roles import LIMITED, TIMED
from loadtest.scenarios.asking import at_once, order_with_retries
from loadtest.shopper import Shopper

ROUNDS = 4
# Purchases at the same moment, at most.
WINDOWS = 4
# Of the orders, how many are given up, so that the next round has something to race for.
GIVEN_UP = 0.7
# Seconds: how long a buyer tries, and how long a sale has been over when they give up.
GIVE_UP_AFTER, OVER = 18.0, 3.5
# Orders kept at a time, and paid in all: with more, the limit would be all that they are told.
KEPT, PAID = 2, 4
# Keys that are asked for once more when the sale is over.
ASKED_AGAIN = 5


def race_limit(shopper: Shopper, random: Random) -> None:
    """Ask for more than the limit at once, under different and under equal keys."""
    sale = shopper.sale_of(LIMITED)
    for _ in range(ROUNDS):
        wanted = [
            shopper.wants(random.randint(1, sale.limit), sale)
            for _ in range(random.randint(2, WINDOWS))
        ]
        wanted.append(random.choice(wanted))
        if random.random() < 0.3:
            one = random.choice(wanted)
            wanted.append(replace(one, quantity=one.quantity % sale.limit + 1))
        answers = at_once(shopper, [(Shopper.order, purchase) for purchase in wanted])
        orders = {answer.order for answer in answers if answer.order is not None}
        for order in sorted(orders):
            if random.random() < GIVEN_UP:
                shopper.cancel(order)
        shopper.sleep(0.3 + random.random() / 2)


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
    for purchase in [*(bought for bought, _ in kept), *refused[-ASKED_AGAIN:]]:
        shopper.order(purchase)
    if kept:
        # Another buyer's key, for more than anyone may have: the sale is over, the key not known.
        other = shopper.friend(1)
        other.ask(shopper.crowd.shop.invalid.anothers_key(kept[-1][0], ended=True))
        other.leave()
