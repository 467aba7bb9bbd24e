"""Buyers who enter a draw in its last seconds; half of the winners never pay."""

from __future__ import annotations

import time
from random import Random

from loadtest.full_shop import Answer
from loadtest.purchases import Sale
from loadtest.sale_roles import DRAWN
from loadtest.scenarios.asking import at_once
from loadtest.scenarios.buying import buy_once
from loadtest.shopper import Shopper

# Seconds before the end in which all enter, and after it, when some are too late.
LAST, LATE = 3.0, 0.3
# How often a buyer asks until the shop is not busy and the answer is known.
ATTEMPTS = 6
# Seconds until a winner is told so, at most, and between two looks.
PATIENCE, PAUSE = 25.0, 1.0


def enter(shopper: Shopper, random: Random) -> None:
    """Enter; if it wins, pay (half of the winners), decline, or do nothing."""
    sale = _at_the_end(shopper, random)
    if sale is not None and _enter(shopper, sale, random).receipt is not None:
        _win(shopper, sale, random)


def enter_twice(shopper: Shopper, random: Random) -> None:
    """Enter twice at the same moment, and once more."""
    sale = _at_the_end(shopper, random)
    if sale is None:
        return
    at_once(shopper, [(Shopper.enter, sale)] * 2)
    if _enter(shopper, sale, random).receipt is not None:
        _win(shopper, sale, random)


def enter_and_withdraw(shopper: Shopper, random: Random) -> None:
    """Enter and withdraw; a third of them enter again, and a third do both at once."""
    sale = _at_the_end(shopper, random)
    if sale is None or _enter(shopper, sale, random).receipt is None:
        return
    choice = random.randrange(3)
    if choice == 2:
        at_once(shopper, [(Shopper.withdraw, sale), (Shopper.enter, sale)])
    else:
        shopper.withdraw(sale)
    if choice == 1:
        _enter(shopper, sale, random)
    _win(shopper, sale, random)


def _at_the_end(shopper: Shopper, random: Random) -> Sale | None:
    """Wait for the last seconds of the draw; where it is over, buy something else: None."""
    sale = shopper.sale_of(DRAWN)
    left = shopper.see_draw(sale).seconds_to_end
    if left <= 0:
        buy_once(shopper, random)
        return None
    shopper.sleep(max(0.0, left - LAST + random.random() * (LAST + LATE)))
    return sale


def _enter(shopper: Shopper, sale: Sale, random: Random) -> Answer:
    for _ in range(ATTEMPTS):
        answer = shopper.enter(sale)
        if not (answer.busy or answer.status >= 500 or not answer.status):
            break
        shopper.sleep(0.2 + random.random() / 5)
    return answer


def _win(shopper: Shopper, sale: Sale, random: Random) -> None:
    """Wait for the result; a winner pays, declines, or lets the time pass."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        shopper.sleep(PAUSE * (0.5 + random.random()))
        won = shopper.see_entry(sale).won
        if won is not None:
            choice = random.random()
            if choice < 0.5:
                shopper.take_won(sale, won)
            elif choice < 0.7:
                shopper.decline_won(sale, won)
            return
