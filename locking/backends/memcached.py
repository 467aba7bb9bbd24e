"""memcached lock: `add` succeeds for one client only; `cas` extends and deletes one's own.

Guaranteed: mutual exclusion as long as memcached keeps the item; a lease never ends earlier on
the server than here; nobody deletes or extends what is not theirs; a crashed holder's lock is free
one to two seconds after its lease, since memcached counts whole seconds.

Not guaranteed: *eviction frees a lock silently*.  Under memory pressure memcached throws items
away, held locks included, and a restart forgets all; `LockLost` is then raised at the next
extension or release, not before.  So: a server of its own, `-M` (errors instead of evictions), and
the fencing token.  The token counts up in another item; if that one is evicted it starts again from
the time of day in µs, which is higher than any count, provided that clients' clocks agree.  No
fairness: waiters poll.

Needs pymemcache.  Source: memcached's protocol.txt, on `add`, `gets`, `cas` and `incr`.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymemcache import MemcacheError, PooledClient

from locking.backends._waiting import Deadline, WaitingLock
from locking.base import Capabilities, Lease, LockUnavailable

logger = logging.getLogger(__name__)

TIMEOUT = 1.0  # s; memcached answers in microseconds or not at all
MAX_PAUSE = 0.1  # s; between tries of a waiter
# s; memcached's clock ticks once a second, so up to one is lost at the start.
CLOCK_TICK = 1
# s; of a counter, after which a new one starts higher.  More than 30 days would be a point in time.
FENCE_LIFE = 7 * 86_400
ALREADY_EXPIRED = -1  # an expiry in the past: the item is gone as soon as it is stored


def memcached_client(address: tuple[str, int]) -> PooledClient:
    """Return a client that threads may share, which waits for answers but not for long."""
    return PooledClient(
        address, connect_timeout=TIMEOUT, timeout=TIMEOUT, no_delay=True, default_noreply=False
    )


def item_key(prefix: str, name: str) -> str:
    """Return a key that memcached takes (250 bytes, no spaces) for a name of any kind."""
    return f"{prefix}:{hashlib.blake2b(name.encode(), digest_size=20).hexdigest()}"


def expiry(seconds: float) -> int:
    """Return the whole seconds after which memcached has surely not yet forgotten the item."""
    return math.ceil(seconds) + CLOCK_TICK


class ItemLease(Lease):
    """An item that carries our value until its expiry."""

    __slots__ = ("_lock", "_value")

    def __init__(self, lock: MemcachedLock, value: bytes, sent_at: float) -> None:
        """Describe the item added by the command that left at `sent_at`."""
        super().__init__(
            lock.name, seconds=lock.lease, sent_at=sent_at, clock=lock.clock, hooks=lock.hooks
        )
        self._lock = lock
        self._value = value

    def _release(self) -> bool:
        return self._store(ALREADY_EXPIRED)

    def _extend(self, seconds: float) -> bool:
        return self._store(expiry(seconds))

    def _store(self, expire: int) -> bool:
        """Set a new expiry, unless the item has ever changed since it was read as ours."""
        client, key = self._lock.client, self._lock.key
        with translated_errors():
            value, unique = client.gets(key)
            if value != self._value:
                return False
            return client.cas(key, value, unique, expire=expire, noreply=False) is True


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate what pymemcache raises where the server does not answer as it should."""
    try:
        yield
    except (MemcacheError, OSError) as error:
        raise LockUnavailable(f"memcached: {error!r}") from error


class MemcachedLock(WaitingLock):
    """An item that only one client can add, kept for `lease` seconds at least."""

    capabilities = Capabilities(fence=True)

    def __init__(
        self, client: PooledClient, name: str, *, lease: float = 10.0, **options: Any
    ) -> None:
        """Make a handle of the lock `name`, to be held for `lease` seconds at a time."""
        super().__init__(name, **options)
        self.client = client
        self.lease = lease
        self.key = item_key("lock", name)
        self.fence_key = item_key("fence", name)

    def _acquire(self, deadline: Deadline) -> Lease:
        with translated_errors():
            while True:
                lease = self._try()
                if lease is not None:
                    return lease
                deadline.pause(MAX_PAUSE)

    def _try(self) -> Lease | None:
        value = f"{self.owner_name}|{uuid.uuid4().hex}".encode()
        sent_at = self.clock.monotonic()
        if not self.client.add(self.key, value, expire=expiry(self.lease)):
            return None
        lease = ItemLease(self, value, sent_at)
        lease.token = self._mint()
        # A token that was minted after the lease could exceed that of the next holder: not ours.
        if lease.remaining() > 0:
            return lease
        lease._release()
        return None

    def _mint(self) -> int:
        while True:
            token = self.client.incr(self.fence_key, 1)
            if token is not None:
                return int(token)
            self.client.add(self.fence_key, str(time.time_ns() // 1000), expire=FENCE_LIFE)

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        with translated_errors():
            value = self.client.get(self.key)
        return None if value is None else str(value.decode().rpartition("|")[0])

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        logger.warning("taking the lock %r away: %s", self.name, reason)
        with translated_errors():
            return bool(self.client.delete(self.key, noreply=False))
