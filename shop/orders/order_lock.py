"""Serialise changes of an order with a lock in Redis; they are correct without it too.

The lock keeps two clicks from racing in the database and at the provider. If they do race, guarded
updates and unique keys keep the order correct.
"""

from __future__ import annotations

from inventory.item_lock import DegradableLock

ORDER_LOCK = DegradableLock("order", lease=15.0, timeout=5.0, metrics_prefix="order_")
"""The lease exceeds the longest answer of the provider. The timeout lets a second click wait for
the first one's answer, which then applies to it too."""
