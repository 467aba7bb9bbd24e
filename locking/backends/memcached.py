"""memcached lock: `add` succeeds for one client only; `cas` extends and releases a client's own.

Guarantees: mutual exclusion as long as memcached keeps the item; a lease never expires earlier on
the server than here; no client deletes or extends another's item; a crashed holder's lock is free
one to two seconds after its lease, because memcached counts whole seconds.

Limits: *eviction frees a lock silently*.  Under memory pressure memcached evicts items, including
held locks, and a restart loses all; `LockLost` is raised only at the next extension or release.  So
use a dedicated server, `-M` (errors instead of evictions) and the fencing token.  The token is a
counter in another item; after an eviction it restarts from the wall clock in µs, which is higher
than any count if the clients' clocks agree.  Not fair: waiters poll.

Needs pymemcache.  Source: memcached's protocol.txt, on `add`, `gets`, `cas` and `incr`.
"""

from __future__ import annotations

import math
import time
from typing import Any

from pymemcache import MemcacheError, PooledClient

from locking.backends._waiting import BackendLease, PollingLock, hashed_key
from locking.base import Lease
from locking.terms import Capabilities

TIMEOUT = 1.0  # s; a healthy memcached answers in microseconds
# s; memcached's clock ticks once per second, so an expiry loses up to one.
CLOCK_TICK = 1
# s; memcached takes an expiry of more than 30 days as a date, which in 1970 is long past.
MAX_LEASE = 30 * 86_400 - CLOCK_TICK
FENCE_LIFE = 7 * 86_400  # s; lifetime of the counter; a new one starts higher
ALREADY_EXPIRED = -1  # an expiry in the past deletes the item as soon as it is stored


def memcached_client(address: tuple[str, int]) -> PooledClient:
    """Return a client that threads may share, with short time-outs and no `noreply`."""
    return PooledClient(
        address, connect_timeout=TIMEOUT, timeout=TIMEOUT, no_delay=True, default_noreply=False
    )


def expiry(seconds: float) -> int:
    """Return an expiry in whole seconds that keeps the item for at least `seconds`."""
    return math.ceil(seconds) + CLOCK_TICK


class MemcachedLock(PollingLock):
    """A lock in an item that only one client can add, kept for at least `lease` seconds."""

    server = "memcached"
    failures = (MemcacheError, OSError)
    capabilities = Capabilities(fence=True)
    longest = MAX_LEASE

    def __init__(self, client: PooledClient, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client = client
        self._address = str(client.server)
        self.key = hashed_key("lock", name)
        self.fence_key = hashed_key("fence", name)

    def _try(self, value: str, sent_at: float) -> Lease | None:
        if not self.client.add(self.key, value.encode(), expire=expiry(self.lease_seconds)):
            return None
        lease = BackendLease(self, value.encode(), sent_at=sent_at)
        lease.token = self._mint()
        # A token minted after the lease has expired could exceed the next holder's; discard it.
        if lease.remaining() > 0:
            return lease
        self._let_go(lease)
        return None

    def _let_go(self, lease: BackendLease) -> bool:
        return self._store(lease, ALREADY_EXPIRED)

    def _prolong(self, lease: BackendLease, seconds: float) -> bool:
        return self._store(lease, expiry(seconds))

    def _store(self, lease: BackendLease, expire: int) -> bool:
        """Set a new expiry if the item still has the lease's value."""
        value, unique = self.client.gets(self.key)
        if value != lease.grant:
            return False
        return self.client.cas(self.key, value, unique, expire=expire, noreply=False) is True

    def _mint(self) -> int:
        while True:
            token = self.client.incr(self.fence_key, 1)
            if token is not None:
                return int(token)
            self.client.add(self.fence_key, str(time.time_ns() // 1000), expire=FENCE_LIFE)

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        with self.asking():
            value = self.client.get(self.key)
        return None if value is None else str(value.decode().rpartition("|")[0])

    def _evict(self) -> bool:
        with self.asking():
            return bool(self.client.delete(self.key, noreply=False))
