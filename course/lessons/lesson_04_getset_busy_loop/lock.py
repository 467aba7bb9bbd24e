"""Lesson 3 as a busy loop: now > GET and now > GETSET."""

import time

from redis import Redis


class BusyLoopLock:
    """`ttl` is the lease in seconds; the client tries every 10 ms."""

    def __init__(self, client: Redis, name: str, *, ttl: float = 10.0) -> None:
        self._client = client
        self._name = name
        self._ttl = ttl

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        give_up = time.monotonic() + timeout
        while True:
            deadline = time.time() + self._ttl + 1
            if self._client.setnx(self._name, deadline) or (
                self._passed(self._client.get(self._name))
                and self._passed(self._client.getset(self._name, deadline))
            ):
                return True
            if time.monotonic() >= give_up:
                return False
            time.sleep(0.01)

    def _passed(self, deadline: bytes | str | None) -> bool:
        return time.time() > float(deadline)  # type: ignore[arg-type]

    def release(self) -> None:
        """Delete the key, unless the deadline has passed."""
        deadline = self._client.get(self._name)
        if deadline is not None and time.time() < float(deadline):
            self._client.delete(self._name)
