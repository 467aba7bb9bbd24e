"""Ways of selling that textbooks and most shops use, one transaction per purchase."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import count
from random import random

from django.db.models import F
from redis.exceptions import LockError, RedisError

from inventory.hooks import LOCKED, hooks
from inventory.models import Item
from inventory.outcomes import Busy, NoSuchItem, OnGranted, Outcome, Purchase
from inventory.postgresql.base import lend_connections
from inventory.selling import guard
from lab.models import UnenforcedItem
from lab.strategies.single import SinglePurchase, refuse_if_short, write_sale
from shop.redis import client


class RowLock(SinglePurchase):
    """`SELECT … FOR UPDATE`, then the code of `naive` under it.

    Correct as long as every writer of the row locks it first. Buyers queue for the row with a
    connection each.
    """

    name = "row_lock"
    summary = "SELECT … FOR UPDATE, then save"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        item = Item.objects.select_for_update().filter(pk=purchase.item).first()
        if item is None:
            raise NoSuchItem(purchase.item)
        if item.available < purchase.quantity:
            raise guard.OutOfStock(item.available)
        item.available -= purchase.quantity
        item.version = F("version") + 1
        item.save(update_fields=["available", "version"])
        write_sale(purchase)


RETRY_TIME = 5.0
"""Seconds of retries; less than a buyer's client waits for an answer."""

FIRST_PAUSE, MAX_PAUSE = 0.001, 0.05
"""Seconds: the limit of a pause doubles from the first to the second value. A purchase takes a few
milliseconds; the longest pause still allows a hundred tries."""


class Overtaken(Exception):
    """Another buyer was faster; roll the transaction back and try again."""


class Version(SinglePurchase):
    """Optimistic locking: read the row with its version; write only if it is unchanged.

    Correct without any lock, and fast if buyers seldom contend. In a rush they always do: of all
    buyers that read the same version one succeeds, and the others have worked for nothing.
    """

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


class Naive(SinglePurchase):
    """The read-check-write code that most programmers write first. It oversells.

    Two buyers read the same number, both find it large enough, and both write it back less one: one
    decrement is lost, and both have bought. Neither the check nor the transaction helps, because at
    READ COMMITTED a read locks nothing. `guard` fixes it.
    """

    name = "naive"
    safe = False
    summary = "read, check, write: oversells"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        item = Item.objects.filter(pk=purchase.item).first()
        if item is None:
            raise NoSuchItem(purchase.item)
        if item.available < purchase.quantity:
            raise guard.OutOfStock(item.available)
        item.available -= purchase.quantity
        item.save(update_fields=["available"])
        UnenforcedItem.add(item.pk)  # otherwise the database refuses a commit that oversells
        write_sale(purchase)


LEASE = 10.0
"""Seconds; many times as long as one purchase."""

MAX_WAIT = 5.0
"""Seconds to wait for the lock; less than a buyer's client waits for an answer."""

POLL = 0.001
"""Seconds between tries. It is often chosen because the default of 100 ms seems slow; with many
waiting buyers it is slower than the default, see docs/bench.md."""


class RedisPyLock(SinglePurchase):
    """The textbook lock of redis-py around a read, a check and the guarded write.

    The lock is released after the commit, not inside the transaction; otherwise the next holder
    would read the old number. Every waiting buyer polls, there is no order, and a buyer may starve.
    """

    name = "redis_lock"
    summary = "redis-py's Lock around read-check-write, plus the guard"

    def _sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        lock = client().lock(
            f"redis_lock:{{{purchase.item}}}",
            timeout=LEASE,
            sleep=POLL,
            blocking_timeout=MAX_WAIT,
        )
        try:
            if not lock.acquire():
                raise Busy(f"the lock was not free within {MAX_WAIT} s")
        except RedisError as error:
            raise Busy("Redis cannot be reached") from error
        hooks.failpoint(LOCKED)
        try:
            return super()._sell(purchase, on_granted)
        finally:
            # If the lease expired or Redis is down, the guard has decided anyway.
            with suppress(LockError, RedisError):
                lock.release()

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        available = (
            Item.objects.values_list("available", flat=True).filter(pk=purchase.item).first()
        )
        refuse_if_short(purchase, available)
        guard.take(purchase.item, purchase.quantity)
