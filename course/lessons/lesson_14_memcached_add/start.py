"""Lesson 14, broken: memcached's `add`, as its client library calls it by default.

Flaw: the client does not wait for the answer, so every `add` looks like a success.
"""

import time
from typing import Any


class HastyAddLock:
    """`client` is a pymemcache client; `ttl` is the life of the lock in whole seconds."""

    def __init__(self, client: Any, name: str, *, ttl: int = 10, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        while not self._client.add(self._name, b"1", expire=self._ttl):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        return True

    def release(self) -> None:
        """Delete the key."""
        self._client.delete(self._name)
