"""How buyers ask: again with the same key after the wait that the shop asks for, or at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from loadtest.full_shop import Answer
from loadtest.purchases import Purchase, Sale
from loadtest.shopper import Shopper

# A shop that is still busy after this many attempts is given up on.
ATTEMPTS = 8
# Of those who got it, how many ask once more, as a page does that is loaded again.
ASK_AGAIN = 0.2
# Of those who were told that all are gone, how many look at the sale.
LOOK = 0.3
# The longest wait between two attempts in a rush, in seconds.
MAX_WAIT = 1.0


def order_with_retries(
    shopper: Shopper, purchase: Purchase, random: Random, *, also_unknown: bool = False
) -> Answer:
    """Ask until the shop is not busy (and, if wanted, until the answer is known)."""
    for _ in range(ATTEMPTS):
        answer = shopper.order(purchase)
        if not (answer.busy or (also_unknown and answer.unknown)):
            break
        # Spread out, or all come back together.
        shopper.sleep(min(answer.retry_after or 0.2, MAX_WAIT) * (0.5 + random.random() / 2))
    if answer.order is not None and random.random() < ASK_AGAIN:
        shopper.order(purchase)
    if answer.sold_out and random.random() < LOOK:
        shopper.look(purchase.sale)
    return answer


def buy_one(shopper: Shopper, random: Random) -> str | None:
    """Buy one, until the answer is known: the order, or None."""
    return order_with_retries(shopper, shopper.wants(), random, also_unknown=True).order


def order_when_back(shopper: Shopper, sale: Sale, quantity: int, random: Random) -> Answer:
    """Order, and while it is sold out come again for units that others have given back."""
    for _ in range(ATTEMPTS):
        purchase = shopper.wants(quantity, sale)
        answer = order_with_retries(shopper, purchase, random, also_unknown=True)
        if not answer.sold_out:
            break
        shopper.sleep(MAX_WAIT * (0.5 + random.random() / 2))
    return answer


def pay_until_paid(shopper: Shopper, order: str, random: Random) -> bool:
    """Pay until the provider has decided, and again what it declined: whether it is paid."""
    for _ in range(ATTEMPTS):
        answer = shopper.pay(order)
        if answer.paid is not None:
            return answer.paid
        if answer.shown is None and not (answer.declined or answer.busy or answer.unknown):
            return False
        shopper.sleep(MAX_WAIT / 2 * (0.5 + random.random() / 2))
    return False


def at_once(
    shopper: Shopper, calls: Sequence[tuple[Callable[..., Answer], *tuple[Any, ...]]]
) -> list[Answer]:
    """Let one buyer make calls at the same moment, as from several windows; return the answers.

    Each call is a method of `Shopper` and what it is given.
    """
    windows = [shopper, *(shopper.window() for _ in calls[1:])]
    with ThreadPoolExecutor(len(windows)) as pool:
        answers = [
            pool.submit(method, window, *given)
            for window, (method, *given) in zip(windows, calls, strict=False)
        ]
    for window in windows[1:]:
        window.leave()
    return [answer.result() for answer in answers]
