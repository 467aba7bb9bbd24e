"""SET NX PX with a token, compare-and-delete in Lua: the textbook lock."""

import time
import uuid

from redis import Redis

# KEYS[1] the lock, ARGV[1] the token.  Returns 1 if the lock was ours and is gone, else 0.
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
"""


class TokenLuaLock:
    """`ttl` is the life of the lock, `wait` the pause between tries, in seconds."""

    def __init__(self, client: Redis, name: str, *, ttl: float = 10.0, wait: float = 1.0) -> None:
        self._client, self._name = client, name
        self._ttl, self._wait = ttl, wait
        self._token = uuid.uuid4().hex.encode()
        self._release = client.register_script(RELEASE)

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
        self._release(keys=[self._name], args=[self._token])
