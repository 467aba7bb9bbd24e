"""SETNX, then EXPIRE, repaired by a waiter that sees a key without an expiry."""

import time

from redis import Redis


class TtlRepairLock:
    """`ttl` is the life of the lock, `wait` the pause between tries, in seconds."""

    def __init__(self, client: Redis, name: str, *, ttl: int = 10, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait
        self._held = False

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        while True:
            # No expiry: the holder must have crashed before it could set one.
            if self._client.setnx(self._name, 1) or self._client.ttl(self._name) < 0:
                self._client.expire(self._name, self._ttl)
                self._held = True
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)

    def release(self) -> None:
        """Delete the key if this client believes that it holds the lock."""
        if self._held:
            self._client.delete(self._name)
            self._held = False
