"""A buyer who asks for a refund, at times from two windows at once."""

from __future__ import annotations

import threading
from random import Random

from loadtest.scenarios.retries import order_with_retries
from loadtest.shopper import Shopper


def pay_and_refund(shopper: Shopper, random: Random) -> None:
    """Buy one, pay it, ask for the money back; half of them ask twice at the same moment."""
    answer = order_with_retries(shopper, shopper.wants(), random, also_unknown=True)
    if answer.order is None:
        return
    shopper.pay(answer.order)
    shopper.sleep(random.random() / 2)
    if random.random() < 0.5:
        shopper.refund(answer.order)
    else:
        _refund_twice(shopper, answer.order)


def _refund_twice(shopper: Shopper, order: str) -> None:
    second = shopper.beside()
    click = threading.Thread(target=shopper.refund, args=[order], kwargs={"connection": second})
    click.start()
    try:
        shopper.refund(order)
    finally:
        click.join()
        second.close()
