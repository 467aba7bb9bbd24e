"""A buyer who cancels an unpaid order bit by bit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from loadtest.purchases import Part
from loadtest.roles import BRIEF, LIMITED
from loadtest.scenarios.at_once import at_once
from loadtest.scenarios.several import buy_several
from loadtest.shopper import Shopper

TIMES = 2


def cancel_parts(shopper: Shopper, random: Random) -> None:
    """Cancel single units under equal and different keys at once, too many, and all of it.

    A key under which a unit was cancelled returns none when the rest is paid.
    """
    for _ in range(TIMES):
        bought = buy_several(shopper, random, random.choice([LIMITED, BRIEF]))
        if bought is None:
            continue
        order, sale, quantity = bought
        one, other = Part(1, sale), Part(max(1, quantity // 2), sale, named=random.random() < 0.5)
        cancel = partial(shopper.cancel, order)
        at_once(shopper, [partial(cancel, one), partial(cancel, one), partial(cancel, other)])
        cancel(Part(quantity, sale))
        cancel(replace(one, quantity=2))
        pay, unit_by_unit = partial(shopper.pay, order), [Part(1, sale) for _ in range(quantity)]
        ending = random.choice(
            [[cancel, cancel], [cancel, pay], [], [partial(cancel, each) for each in unit_by_unit]]
        )
        at_once(shopper, ending)
        shopper.sleep(random.random() / 2)
        cancel(one)
        shopper.refund(order, one)
        shopper.read(order)
