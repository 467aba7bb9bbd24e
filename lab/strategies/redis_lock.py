"""``redis_lock``: the textbook lock of redis-py around a read, a check and the guarded write.

The lock is released after the commit, not inside the transaction; otherwise the next holder would
read the old number. Every waiting buyer polls, there is no order, and a buyer may starve.
"""

from redis.exceptions import LockError, RedisError

from inventory.hooks import LOCKED, hooks
from inventory.models import Item
from inventory.outcomes import Busy, OnGranted, Outcome, Purchase
from inventory.redis import client
from inventory.selling import guard
from lab.strategies.single import SinglePurchase, refuse_if_short

LEASE = 10.0
"""Seconds; many times as long as one purchase."""

MAX_WAIT = 5.0
"""Seconds to wait for the lock; less than a buyer's client waits for an answer."""

POLL = 0.001
"""Seconds between tries. People choose this because the default of 100 ms seems slow; with many
waiting buyers it is slower than the default, see docs/bench.md."""


class RedisPyLock(SinglePurchase):
    """Take redis-py's lock, read, check, write, commit, release."""

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
            try:
                lock.release()
            except (LockError, RedisError):
                # The lease expired or Redis is down; the guard has decided anyway.
                self.lost += 1

    lost = 0
    """The number of locks that were lost before their release."""

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        available = (
            Item.objects.values_list("available", flat=True).filter(pk=purchase.item).first()
        )
        refuse_if_short(purchase, available)
        guard.take(purchase.item, purchase.quantity)
