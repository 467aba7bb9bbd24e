"""Serialise changes of an order with a lock in Redis; they are correct without it too.

The lock keeps two clicks from racing in the database and at the provider. If they do race, guarded
updates and unique keys keep the order correct.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from inventory.item_lock import DegradableLock
from inventory.selling.commit import lend_connections

# The lease exceeds the longest answer of the provider. The timeout lets a second click wait for the
# first one's answer, which then applies to it too.
ORDER_LOCK = DegradableLock("order", lease=15.0, timeout=5.0, metrics_prefix="order_")


@contextmanager
def order_lock(order: int) -> Iterator[None]:
    """Hold the order's lock inside the block, if Redis answers in time."""
    # The holder may need a connection to finish: if waiting requests kept theirs, the pool could
    # run dry and they would all wait for each other.
    lend_connections()
    with ORDER_LOCK.hold(order):
        yield
