"""Several requests of one buyer at the same moment, as from several windows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.answers import Answer


def at_once(shopper: Shopper, calls: Sequence[Callable[..., Answer]]) -> list[Answer]:
    """Make calls of the shopper at once: the answers, in the order of the calls.

    Each is called with a `connection` of its own, which is closed afterwards.
    """
    answers: dict[int, Answer] = {}

    def make(place: int) -> None:
        connection = shopper.beside()
        try:
            answers[place] = calls[place](connection=connection)
        finally:
            connection.close()

    clicks = [threading.Thread(target=make, args=[place]) for place in range(len(calls))]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    return [answers[place] for place in sorted(answers)]
