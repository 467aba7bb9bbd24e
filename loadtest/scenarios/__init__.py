"""What buyers do: one module per theme, and the mixes of them, by weight.

A behaviour is a function of a shopper and a random generator. It acts once, from the opening on;
how it acts follows from the generator alone, which is seeded by the run's seed and the buyer's
place, so that a run can be repeated. To add one, give it a weight in a mix. None goes on without
end: each has a number of times or of seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import accumulate
from random import Random
from typing import TypeVar

from loadtest.scenarios.buying import browse as browse
from loadtest.scenarios.buying import (
    buy_once,
    come_again,
    insist,
    look_around,
    send_twice,
    want_more,
)
from loadtest.scenarios.entrants import enter, enter_and_withdraw, enter_twice
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
from loadtest.scenarios.walking_away import pay_on_page
from loadtest.shopper import Shopper

Behaviour = Callable[[Shopper, Random], None]

MIXES: dict[str, Mapping[Behaviour, int]] = {
    # Buyers at an opening: some retry, click twice, or want more than the limit.
    "rush": {buy_once: 60, insist: 15, send_twice: 10, want_more: 10, look_around: 5},
    "payers": {buy_and_pay: 45, abandon: 20, cancel: 20, send_twice: 15},
    "refunders": {pay_and_refund: 70, buy_once: 15, send_twice: 15},
    "doubles": {send_twice: 70, insist: 30},
    # Scripts among buyers.
    "bots": {hammer: 45, buy_once: 40, send_twice: 15},
    "carts": {fill_cart: 60, buy_once: 30, send_twice: 10},
    "limits": {race_limit: 70, buy_once: 15, send_twice: 15},
    # Buyers who go on while a sale is paused, closed and opened again.
    "windows": {outlast: 80, buy_once: 10, send_twice: 10},
    # Buyers who do not pay in time, and those who wait for what comes back.
    "holds": {let_expire: 24, pay_at_deadline: 24, cancel_late: 24, come_again: 28},
    # Buyers who have to pay on the provider's page. Half of them leave it.
    "walkers": {pay_on_page: 100},
    "parts": {cancel_parts: 40, refund_parts: 40, send_twice: 20},
    # Buyers who enter a draw in its last seconds.
    "entrants": {enter: 40, enter_twice: 15, enter_and_withdraw: 15, buy_once: 20, send_twice: 10},
    # Buyers who try other buyers' orders, and programs that send what must be refused.
    "peepers": {peep: 40, send_invalid: 20, buy_and_pay: 25, pay_and_refund: 20, send_twice: 15},
}
"""What the buyers of a mix do, and how often each of it."""

# The buyers of every mix in equal parts.
MIXES["all"] = sum(map(Counter, MIXES.values()), Counter[Behaviour]())

# Behaviours that do not wait for the opening.
IMPATIENT = frozenset({hammer})


NAMES = frozenset(behaviour.__name__ for behaviour in MIXES["all"])


def parse_weights(text: str, known: Collection[str] = NAMES) -> dict[str, int]:
    """Read `insist=30,look_around=0`: weights by behaviour, in place of those of the mix.

    Raises `ValueError` for an unknown behaviour or a weight that is not a count.
    """
    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition("=")
        if name not in known or not weight.isdigit():
            raise ValueError(f"{part!r} is not a behaviour and its weight, such as buy_once=60")
        weights[name] = int(weight)
    return weights


B = TypeVar("B", bound=Callable[..., None])


def choose(mix: Mapping[B, int], weights: Mapping[str, int], at: float) -> B:
    """Choose the behaviour of a mix that lies at a place from 0 to 1, each as wide as its weight.

    `weights` replace those of the mix. Raises `ValueError` if every weight is zero.
    """
    widths = [weights.get(behaviour.__name__, weight) for behaviour, weight in mix.items()]
    *ends, total = accumulate(widths)
    if not total:
        raise ValueError("every weight is zero")
    return list(mix)[bisect_right(ends, at * total)]
