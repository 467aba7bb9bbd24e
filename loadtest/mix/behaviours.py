"""What the buyers of a mix do, as far as the shop's levels reach.

A behaviour is a function of a buyer and a random generator. It acts once, and how it acts follows
from the generator alone, which is seeded by the run's seed and the buyer's place. Every buyer asks
again after an answer that says neither sold nor refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import NamedTuple

from loadtest.address import RunImpossible
from loadtest.mix.buyers import PacedBuyer
from loadtest.shop import Hold, Level, Sold

LONGEST = 120.0
"""Seconds that a buyer waits for what is held to expire, at most."""

Behaviour = Callable[[PacedBuyer, Random], None]


def buy(buyer: PacedBuyer, random: Random) -> None:
    """Buy a unit."""
    if buyer.reach_last_step(random):
        buyer.press()


def press_twice(buyer: PacedBuyer, random: Random) -> None:
    """Send the last step twice at one moment, and half of the time once more a little later."""
    if buyer.reach_last_step(random):
        buyer.press(times=2)
        if random.random() < 0.5:
            buyer.think(random)
            buyer.press()


def repeat(buyer: PacedBuyer, random: Random) -> None:
    """Buy, and repeat the last step once or twice a little later, as a page that is reloaded."""
    if buyer.reach_last_step(random):
        buyer.press()
        for _ in range(random.randint(1, 2)):
            buyer.think(random)
            buyer.press()


def cancel(buyer: PacedBuyer, random: Random) -> None:
    """Buy, and give the order back a little later; half of the time twice at one moment."""
    if not buyer.reach_last_step(random):
        return
    outcome = buyer.press()
    buyer.think(random)
    if isinstance(outcome, Sold):
        buyer.give_back(outcome.order, times=random.randint(1, 2))


def use_voucher(buyer: PacedBuyer, random: Random) -> None:
    """Buy with the voucher of the sale, which fewer orders may use than there are units."""
    if buyer.reach_last_step(random, voucher=True):
        buyer.press()


def add_while_paying(buyer: PacedBuyer, random: Random) -> None:
    """Add a unit to the cart at the moment of the last step."""
    if buyer.reach_last_step(random):
        buyer.press(adding=True)


def let_expire(buyer: PacedBuyer, random: Random) -> None:
    """Let the time run out in which units are held.

    Where an order holds them, half of the buyers cancel it at just that moment. Where a cart does,
    half of them take the last step then, and the others do not come back.
    """
    hold, returns = buyer.all.hold, random.random() < 0.5
    if hold is None or not buyer.reach_last_step(random):
        return
    if not hold.orders:
        buyer.sleep(hold.seconds)
        if returns:
            buyer.press()
        else:
            buyer.stay_away()
        return
    outcome = buyer.press()
    if isinstance(outcome, Sold) and returns and Level.CANCEL in buyer.all.shop.levels:
        buyer.sleep(hold.seconds)
        buyer.give_back(outcome.order)


class Weighted(NamedTuple):
    """How often buyers do this, and the level that it needs."""

    weight: int
    level: Level


MIX: dict[Behaviour, Weighted] = {
    buy: Weighted(40, Level.STOCK),
    press_twice: Weighted(15, Level.REPEATS),
    repeat: Weighted(10, Level.REPEATS),
    cancel: Weighted(15, Level.CANCEL),
    use_voucher: Weighted(15, Level.VOUCHERS),
    add_while_paying: Weighted(10, Level.CARTS),
    let_expire: Weighted(10, Level.EXPIRY),
}

NAMES = frozenset(behaviour.__name__ for behaviour in MIX)


def played(
    levels: Collection[Level], weights: Mapping[str, int], hold: Hold | None
) -> dict[Behaviour, int]:
    """Return the weights of what buyers do at a shop.

    Args:
        levels: that it offers.
        weights: by behaviour, in place of the usual ones.
        hold: how long it holds units; None if it does not say.

    Raises:
        RunImpossible: nothing is left, or the shop does not offer what is asked for.
    """
    expires = hold is not None and hold.seconds <= LONGEST
    found: dict[Behaviour, int] = {}
    for behaviour, (usual, level) in MIX.items():
        weight = weights.get(behaviour.__name__, usual)
        offered = level in levels and (level is not Level.EXPIRY or expires)
        if weight and offered:
            found[behaviour] = weight
        elif weight and behaviour.__name__ in weights:
            why = f"holds units for more than {LONGEST:g} s" if level in levels else "does not"
            reason = f"the shop {why}" + ("" if level in levels else f" offer {level}")
            raise RunImpossible(f"no buyer can {behaviour.__name__}: {reason}")
    if not found:
        raise RunImpossible("every weight is zero")
    return found


def tried(behaviours: Collection[Behaviour]) -> frozenset[Level]:
    """Return the levels that these put to the test; repeats follow from asking again."""
    return frozenset(
        {Level.STOCK, Level.REPEATS, *(MIX[behaviour].level for behaviour in behaviours)}
    )
