"""SETNX, then EXPIRE: the lock that most people write first."""

import time

from redis import Redis


class SetnxExpireLock:
    """`name` is the key, `ttl` its life in seconds, `wait` the pause between tries."""

    def __init__(self, client: Redis, name: str, *, ttl: int = 10, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        while not self._client.setnx(self._name, 1):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        self._client.expire(self._name, self._ttl)
        return True

    def release(self) -> None:
        """Delete the key."""
        self._client.delete(self._name)
