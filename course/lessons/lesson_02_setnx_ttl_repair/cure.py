"""Lesson 2, fixed: take, check for a dead key, and set the expiry in one script."""

import time

from redis import Redis

# KEYS[1] the lock, ARGV[1] its life in seconds.  Returns 1 if the lock was taken, else 0.
# No client sees a living holder's key without an expiry, because the script sets both.
ACQUIRE = """
if redis.call('SETNX', KEYS[1], 1) == 1 or redis.call('TTL', KEYS[1]) == -1 then
  return redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return 0
"""


class RepairingLock:
    """`ttl` is the life of the lock, `wait` the pause between tries, in seconds."""

    def __init__(self, client: Redis, name: str, *, ttl: int = 10, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait
        self._script = client.register_script(ACQUIRE)

    def acquire(self, timeout: float = 0.0) -> bool:
        """Try for `timeout` seconds (0: once); return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        while not self._script(keys=[self._name], args=[self._ttl]):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._wait)
        return True

    def release(self) -> None:
        """Delete the key."""
        self._client.delete(self._name)
