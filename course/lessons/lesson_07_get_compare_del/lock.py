"""SET NX PX with a token, and GET, compare, DEL: only the owner deletes."""

import time
import uuid

from redis import Redis


class GetCompareDelLock:
    """`ttl` is the life of the lock, `wait` the pause between tries, in seconds."""

    def __init__(self, client: Redis, name: str, *, ttl: float = 10.0, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait
        self._token = uuid.uuid4().hex.encode()

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        while not self._client.set(self._name, self._token, nx=True, px=round(self._ttl * 1000)):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        return True

    def release(self) -> None:
        """Delete the key if it is still ours."""
        if self._client.get(self._name) == self._token:
            self._client.delete(self._name)
