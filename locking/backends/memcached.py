"""A lock on memcached: `add` succeeds for one client only; `cas` extends and releases one's own.

memcached keeps the lock for at least the lease, and up to two seconds longer, because it counts
whole seconds. *Eviction frees a lock silently*: under memory pressure memcached drops items, held
locks among them, and a restart drops all; the holder learns of it when it next extends or releases.
So use a server for locks alone, with `-M` (errors instead of evictions). There is no fencing token,
and no order among waiters, who try again and again.

Every client of pymemcache works. Some do not wait for answers by default (`noreply`), so each
command here asks for one.

Source: memcached's protocol.txt, on `add`, `gets` and `cas`.
"""

from __future__ import annotations

import math
from typing import Any

from pymemcache import MemcacheError, PooledClient

from locking.backends.common import BackendLease, Grant, PollingBackend, hashed_key
from locking.base import Capabilities

TIMEOUT = 1.0
"""Seconds for an answer; a healthy memcached takes microseconds."""

TICK = 1
"""Seconds between two ticks of memcached's clock: an end may come that much early."""

ENDED = -1
"""An end in the past: the item is gone as soon as it is stored."""


def memcached_client(address: tuple[str, int]) -> PooledClient:
    """Return a client for (host, port) that threads may share, with short time-outs."""
    return PooledClient(address, connect_timeout=TIMEOUT, timeout=TIMEOUT, no_delay=True)


class MemcachedLock(PollingBackend):
    """A lock in an item that only one client can add.

    Args:
        client: a client of pymemcache.
        name: the lock's.
        options: `lease`, `owner` and `timeout`; see `LeasedBackend`.
    """

    server = "memcached"
    failures = (MemcacheError, OSError)
    capabilities = Capabilities(extend=True, owner=True, force_release=True)
    longest = 30 * 86_400 - TICK  # memcached takes more than 30 days for a date

    def __init__(self, client: Any, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client = client
        self.key = hashed_key(name)

    def _try(self, value: str) -> Grant | None:
        keep = _whole(self.seconds)
        added = self.client.add(self.key, value.encode(), expire=keep, noreply=False)
        return Grant(value) if added is True else None

    def _let_go(self, lease: BackendLease) -> bool:
        return self._store(lease, ENDED)

    def _prolong(self, lease: BackendLease, seconds: float) -> bool:
        return self._store(lease, _whole(seconds))

    def _store(self, lease: BackendLease, expire: int) -> bool:
        """Set another end if the item still has the lease's value; return whether it had."""
        value, unique = self.client.gets(self.key)
        if value != lease.grant.encode():
            return False
        stored = self.client.cas(self.key, value, unique, expire=expire, noreply=False)
        return stored is True

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        with self.asking():
            value: bytes | None = self.client.get(self.key)
        return None if value is None else value.decode().rpartition("|")[0]

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        with self.asking():
            return self._log_eviction(bool(self.client.delete(self.key, noreply=False)), reason)


def _whole(seconds: float) -> int:
    """Return an end in whole seconds that keeps the item for at least so long."""
    return math.ceil(seconds) + TICK
