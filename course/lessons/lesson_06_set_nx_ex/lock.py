"""SET NX EX: the script of lesson 5 as a single command, since Redis 2.6.12."""

import time

from redis import Redis


class SetNxExLock:
    """`ttl` is the life of the lock, `wait` the pause between tries, in seconds."""

    def __init__(self, client: Redis, name: str, *, ttl: int = 10, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        while not self._client.set(self._name, 1, nx=True, ex=self._ttl):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        return True

    def release(self) -> None:
        """Delete the key."""
        self._client.delete(self._name)
