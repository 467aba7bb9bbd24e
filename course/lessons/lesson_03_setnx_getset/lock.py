"""SETNX with the deadline as value, then GET and GETSET on an expired one."""

import time

from redis import Redis


class GetsetLock:
    """`ttl` is the life of the lock, `wait` the pause between tries, in seconds."""

    def __init__(self, client: Redis, name: str, *, ttl: float = 10.0, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        give_up = time.monotonic() + timeout
        while not self._try():
            if time.monotonic() >= give_up:
                return False
            time.sleep(self._wait)
        return True

    def _try(self) -> bool:
        if self._client.setnx(self._name, time.time() + self._ttl):
            return True
        seen = self._client.get(self._name)
        if seen is None or float(seen) > time.time():
            return False
        # The deadline has passed.  Of all clients that see it, the one that gets it back has won.
        return self._client.getset(self._name, time.time() + self._ttl) == seen

    def release(self) -> None:
        """Delete the key unless the deadline has passed: then it may be another client's."""
        deadline = self._client.get(self._name)
        if deadline is not None and time.time() < float(deadline):
            self._client.delete(self._name)
