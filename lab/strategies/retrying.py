"""Base of strategies that retry a transaction after a conflict with another buyer."""

from __future__ import annotations

import time
from itertools import count
from random import random

from inventory.outcomes import Busy, OnGranted, Outcome, Purchase
from inventory.postgresql.base import lend_connections
from lab.strategies.single import SinglePurchase

RETRY_TIME = 5.0
"""Seconds of retries; less than a buyer's client waits for an answer."""

FIRST_PAUSE, MAX_PAUSE = 0.001, 0.05
"""Seconds: the limit of a pause doubles from the first to the second value. A purchase takes a few
milliseconds; the longest pause still allows a hundred tries."""


class Overtaken(Exception):
    """Another buyer was faster; roll the transaction back and try again."""


class Retrying(SinglePurchase):
    """Retries the transaction while :meth:`take` raises :class:`Overtaken`."""

    def _sell_once(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        deadline = time.monotonic() + RETRY_TIME
        for tries in count():
            try:
                return super()._sell_once(purchase, on_granted)
            except Overtaken as error:
                if time.monotonic() > deadline:
                    raise Busy(f"other buyers were faster for {RETRY_TIME} s") from error
            # Random, so that buyers that conflicted once do not conflict again.
            lend_connections()
            time.sleep(random() * min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(tries, 10)))
        raise AssertionError("never reached")
