"""A buyer who returns a paid order bit by bit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from loadtest.purchases import Part
from loadtest.roles import BRIEF, LIMITED
from loadtest.scenarios.at_once import at_once
from loadtest.scenarios.retries import pay_until_paid
from loadtest.scenarios.several import buy_several
from loadtest.shopper import Shopper

TIMES = 2


def refund_parts(shopper: Shopper, random: Random) -> None:
    """Return single units under equal and different keys at once, too many, and all of it."""
    for _ in range(TIMES):
        bought = buy_several(shopper, random, random.choice([LIMITED, LIMITED, BRIEF]))
        if bought is None:
            continue
        order, sale, quantity = bought
        if not pay_until_paid(shopper, order, random):
            continue
        one, other = Part(1, sale), Part(max(1, quantity // 2), sale, named=random.random() < 0.5)
        refund = partial(shopper.refund, order)
        at_once(shopper, [partial(refund, one), partial(refund, one), partial(refund, other)])
        refund(Part(quantity, sale))
        refund(replace(one, quantity=2))
        ending = random.choice([[refund, refund], [refund, partial(refund, Part(1, sale))], []])
        at_once(shopper, ending)
        shopper.sleep(random.random() / 2)
        refund(one)
        shopper.read(order)
