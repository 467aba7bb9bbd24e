"""A buyer who clicks twice: one key, two requests on two connections at the same moment."""

from __future__ import annotations

import threading
from random import Random

from loadtest.shopper import Shopper


def send_twice(shopper: Shopper, random: Random) -> None:
    """Send the same purchase twice at once, and a third time when both answers are here."""
    purchase = shopper.wants()
    second = shopper.beside()
    click = threading.Thread(target=shopper.order, args=[purchase], kwargs={"connection": second})
    click.start()
    try:
        shopper.order(purchase)
    finally:
        click.join()
        second.close()
    if random.random() < 0.5:
        shopper.order(purchase)
