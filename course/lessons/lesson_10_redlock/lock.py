"""Redlock over five independent servers.

The client sets the same key and token on all of them, with short timeouts.  It holds the lock if a
majority agreed within the lease, less an allowance for drifting clocks; otherwise it releases the
lock everywhere, including servers where acquiring seemed to fail.
https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
"""

import random
import time
import uuid
from collections.abc import Sequence

from redis import Redis
from redis.exceptions import RedisError

from course.lessons.lesson_08_token_lua.lock import RELEASE

# The allowance for clocks of different speeds: this share of the lease …
DRIFT = 0.01
# … plus these seconds, which cover the expiry's precision of one millisecond twice.
DRIFT_FLOOR = 0.002


class RedlockLock:
    """`clients` are independent servers, an odd number; `ttl` is the lease in seconds."""

    def __init__(
        self, clients: Sequence[Redis], name: str, *, ttl: float = 10.0, wait: float = 0.2
    ) -> None:
        self._clients, self._name = clients, name
        self._ttl, self._wait = ttl, wait
        self._token = uuid.uuid4().hex.encode()
        self._releases = [client.register_script(RELEASE) for client in clients]

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether a majority gave the lock in time."""
        deadline = time.monotonic() + timeout
        while not self._try():
            if time.monotonic() >= deadline:
                return False
            time.sleep(random.uniform(self._wait / 2, self._wait))
        return True

    def _try(self) -> bool:
        started = time.monotonic()
        votes = sum(self._take(client) for client in self._clients)
        valid = self._ttl * (1 - DRIFT) - DRIFT_FLOOR - (time.monotonic() - started)
        if votes > len(self._clients) // 2 and valid > 0:
            return True
        self.release()
        return False

    def _take(self, client: Redis) -> bool:
        try:
            return bool(client.set(self._name, self._token, nx=True, px=round(self._ttl * 1000)))
        except RedisError:  # a server that is down casts no vote
            return False

    def release(self) -> None:
        """Delete the key on every server where it is ours."""
        for release in self._releases:
            try:
                release(keys=[self._name], args=[self._token])
            except RedisError:
                continue  # its key will expire
