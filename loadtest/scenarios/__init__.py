"""What buyers do: one behaviour a file, mixed by weight.

A behaviour is a function of a shopper and a random generator. It acts once, from the opening on;
how it acts follows from the generator alone, which is seeded by the run's seed and the buyer's
place, so that a run can be repeated. To add one, write its file and name it in a mix.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from loadtest.scenarios.abandoner import abandon
from loadtest.scenarios.bot import hammer
from loadtest.scenarios.canceller import cancel
from loadtest.scenarios.carter import fill_cart
from loadtest.scenarios.doubler import send_twice
from loadtest.scenarios.greedy import want_more
from loadtest.scenarios.looker import look_around
from loadtest.scenarios.once import buy_once
from loadtest.scenarios.payer import buy_and_pay
from loadtest.scenarios.refunder import pay_and_refund
from loadtest.scenarios.retrier import insist
from loadtest.shopper import Shopper

Behaviour = Callable[[Shopper, Random], None]

# Behaviours that do not wait for the opening.
IMPATIENT: frozenset[Behaviour] = frozenset({hammer})

RUSH: dict[Behaviour, int] = {
    buy_once: 60,
    insist: 15,
    send_twice: 10,
    want_more: 10,
    look_around: 5,
}
# In every crowd some click twice: without repeated keys, nothing would be known about these.
PAYERS: dict[Behaviour, int] = {buy_and_pay: 45, abandon: 20, cancel: 20, send_twice: 15}
REFUNDERS: dict[Behaviour, int] = {pay_and_refund: 70, buy_once: 15, send_twice: 15}
DOUBLES: dict[Behaviour, int] = {send_twice: 70, insist: 30}
BOTS: dict[Behaviour, int] = {hammer: 45, buy_once: 40, send_twice: 15}
CARTS: dict[Behaviour, int] = {fill_cart: 60, buy_once: 30, send_twice: 10}

MIXES: dict[str, dict[Behaviour, int]] = {
    "rush": RUSH,
    "payers": PAYERS,
    "refunders": REFUNDERS,
    "doubles": DOUBLES,
    "bots": BOTS,
    "carts": CARTS,
    "all": {**PAYERS, **REFUNDERS, **BOTS, **CARTS, **RUSH, **DOUBLES},
}


IN_CARTS = 3
"""Sales from which carts are filled."""


def sales_for(mix: str) -> int:
    """How many sales a mix wants: several for carts; everybody else goes to the first."""
    return IN_CARTS if fill_cart in MIXES[mix] else 1


def parse_weights(text: str) -> dict[str, int]:
    """Read `insist=30,look_around=0`: weights by behaviour, in place of those of the mix.

    Raises `ValueError` for a behaviour that no mix knows or a weight that is not a count.
    """
    known = {behaviour.__name__ for behaviour in MIXES["all"]}
    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition("=")
        if name not in known or not weight.isdigit():
            raise ValueError(f"{part!r} is not a behaviour and its weight, such as buy_once=60")
        weights[name] = int(weight)
    return weights


def choose(mix: str, weights: dict[str, int], random: Random) -> Behaviour:
    """Pick a behaviour of the mix. Raises `ValueError` if every weight is zero."""
    behaviours = list(MIXES[mix])
    chances = [weights.get(each.__name__, MIXES[mix][each]) for each in behaviours]
    return random.choices(behaviours, chances)[0]
