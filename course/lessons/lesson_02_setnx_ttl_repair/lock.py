"""SETNX, then EXPIRE, repaired by a waiter that sees a key without an expiry."""

import time

from redis import Redis


class TtlRepairLock:
    """Remembers the names that this client holds; one object serves many names."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._held: set[str] = set()

    def lock(
        self, name: str, timeout: float = 0.0, expire: int = 15, wait_interval: float = 0.1
    ) -> bool:
        """Try for `timeout` seconds (0: give up at once) to lock `name`; return whether it is ours.

        `expire` is the lease, `wait_interval` the pause between tries, in seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            if self._client.setnx(name, 1):
                self._client.expire(name, expire)
                self._held.add(name)
                return True
            # No expiry: the holder must have crashed before it could set one.
            if self._client.ttl(name) < 0:
                self._client.expire(name, expire)
                self._held.add(name)
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(wait_interval)

    def unlock(self, name: str) -> bool:
        """Delete the lock if this client believes that it holds it; return whether it did."""
        if not self.is_locking(name):
            return False
        self._client.delete(name)
        self._held.discard(name)
        return True

    def unlock_all(self) -> None:
        """Delete every lock that this client believes it holds."""
        for name in list(self._held):
            self.unlock(name)

    def expire(self, name: str, expire: int) -> bool:
        """Extend the lock to `expire` seconds from now; return whether it is ours to extend."""
        return self.is_locking(name) and bool(self._client.expire(name, expire))

    def is_locking(self, name: str) -> bool:
        """Return whether this client took the lock, without asking the server."""
        return name in self._held
