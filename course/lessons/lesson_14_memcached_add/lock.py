"""memcached's `add`, which fails if the key exists, and `cas` to release one's own lock."""

import time
import uuid
from typing import Any


class MemcachedAddLock:
    """`client` is a pymemcache client; `ttl` is the life of the lock in whole seconds."""

    def __init__(self, client: Any, name: str, *, ttl: int = 10, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait
        self._token = uuid.uuid4().hex.encode()

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        # `noreply` is pymemcache's default and would make every `add` look like a success.
        while not self._client.add(self._name, self._token, expire=self._ttl, noreply=False):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        return True

    def release(self) -> None:
        """Let the key expire at once if it is still ours.

        There is no compare-and-delete, but `cas` replaces a value only if it is unchanged since
        the read, and a negative expiry is in the past.
        """
        value, version = self._client.gets(self._name)
        if value == self._token:
            self._client.cas(self._name, b"", version, expire=-1, noreply=False)
