"""``version``: optimistic locking. Read the row with its version; write only if it is unchanged.

Correct without any lock, and fast if buyers seldom contend. In a rush they always do: of all buyers
that read the same version one succeeds, and the others have worked for nothing.
"""

from __future__ import annotations

import time
from itertools import count
from random import random

from django.db.models import F

from inventory.models import Item
from inventory.outcomes import Busy, OnGranted, Outcome, Purchase
from inventory.postgresql.base import lend_connections
from lab.strategies.single import SinglePurchase, refuse_if_short, write_sale

RETRY_TIME = 5.0
"""Seconds of retries; less than a buyer's client waits for an answer."""

FIRST_PAUSE, MAX_PAUSE = 0.001, 0.05
"""Seconds: the limit of a pause doubles from the first to the second value. A purchase takes a few
milliseconds; the longest pause still allows a hundred tries."""


class Overtaken(Exception):
    """Another buyer was faster; roll the transaction back and try again."""


class Version(SinglePurchase):
    """Compare and set the version; on a conflict, try again after a random pause."""

    name = "version"
    summary = "optimistic: compare-and-set on the row's version, tried again"

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

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        row = Item.objects.filter(pk=purchase.item).values_list("available", "version").first()
        available, version = row or (None, 0)
        refuse_if_short(purchase, available)
        as_it_was_read = Item.objects.filter(pk=purchase.item, version=version)
        left = F("available") - purchase.quantity
        if not as_it_was_read.update(available=left, version=version + 1):
            raise Overtaken
        write_sale(purchase)
