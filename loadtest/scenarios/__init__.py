"""What buyers do: one module per theme. `loadtest/locustfile.py` mixes them by weight.

A behaviour is a function of a shopper and a random generator. It acts once, from the opening on;
how it acts follows from the generator alone, which is seeded by the run's seed and the buyer's
place, so that a run can be repeated. To add one, list it in `BEHAVIOURS` and give it a weight in
`loadtest/locustfile.py`. None goes on without end: each has a number of times or of seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from random import Random

from loadtest.scenarios.buying import browse as browse
from loadtest.scenarios.buying import (
    buy_once,
    come_again,
    insist,
    look_around,
    send_twice,
    want_more,
)
from loadtest.scenarios.intruders import hammer, peep, send_invalid
from loadtest.scenarios.limits import outlast, race_limit
from loadtest.scenarios.parts import cancel_parts, fill_cart, refund_parts
from loadtest.scenarios.paying import (
    abandon,
    buy_and_pay,
    cancel,
    cancel_late,
    let_expire,
    pay_and_refund,
    pay_at_deadline,
)
from loadtest.scenarios.walker import walk
from loadtest.shopper import Shopper

Behaviour = Callable[[Shopper, Random], None]

# What buyers of the mixes do; `loadtest.locustfile` has a class for each mix.
BEHAVIOURS: tuple[Behaviour, ...] = (
    buy_once,
    insist,
    send_twice,
    want_more,
    look_around,
    buy_and_pay,
    abandon,
    cancel,
    pay_and_refund,
    hammer,
    fill_cart,
    race_limit,
    outlast,
    let_expire,
    pay_at_deadline,
    cancel_late,
    come_again,
    cancel_parts,
    refund_parts,
    peep,
    send_invalid,
    walk,
)
MIXES = (
    "rush",
    "payers",
    "refunders",
    "doubles",
    "bots",
    "carts",
    "limits",
    "windows",
    "holds",
    "parts",
    "peepers",
    "walkers",
    "all",
)
# Behaviours that do not wait for the opening.
IMPATIENT = frozenset({hammer.__name__})


def parse_weights(text: str) -> dict[str, int]:
    """Read `insist=30,look_around=0`: weights by behaviour, in place of those of the mix.

    Raises `ValueError` for an unknown behaviour or a weight that is not a count.
    """
    known = {behaviour.__name__ for behaviour in BEHAVIOURS}
    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition("=")
        if name not in known or not weight.isdigit():
            raise ValueError(f"{part!r} is not a behaviour and its weight, such as buy_once=60")
        weights[name] = int(weight)
    return weights


def choose(mix: Mapping[str, int], weights: Mapping[str, int], at: float) -> str:
    """Choose the behaviour of a mix that lies at a place from 0 to 1, each as wide as its weight.

    `weights` replace those of the mix. Raises `ValueError` if every weight is zero.
    """
    widths = [weights.get(name, weight) for name, weight in mix.items()]
    *ends, total = accumulate(widths)
    if not total:
        raise ValueError("every weight is zero")
    return list(mix)[bisect_right(ends, at * total)]
