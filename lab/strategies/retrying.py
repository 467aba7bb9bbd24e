"""For strategies that may find, after their work, that somebody else was quicker."""

from __future__ import annotations

import time
from itertools import count
from random import random

from inventory.outcomes import Busy, OnGranted, Outcome, Purchase
from inventory.selling.commit import lend_connections
from inventory.selling.strategies.single import SinglePurchase

PATIENCE = 5.0
"""Seconds of trying again; less than a buyer's client waits for an answer."""

SHORTEST, LONGEST = 0.001, 0.05
"""Seconds: the first pause is at most the one, and doubles up to the other. A purchase takes a few
milliseconds; the longest pause still leaves a hundred tries."""


class Overtaken(Exception):
    """Somebody else was quicker. The transaction is rolled back and made again."""


class Retrying(SinglePurchase):
    """Makes the transaction again while :meth:`take` says that it was overtaken."""

    def _sell_once(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        give_up = time.monotonic() + PATIENCE
        for tries in count():
            try:
                return super()._sell_once(purchase, on_granted)
            except Overtaken as error:
                if time.monotonic() > give_up:
                    raise Busy(f"overtaken for {PATIENCE} s") from error
            # At random, so that those who met once do not meet again.
            lend_connections()
            time.sleep(random() * min(LONGEST, SHORTEST * 2 ** min(tries, 10)))
        raise AssertionError("never reached")
