"""The textbook lock with a watchdog, after Redisson's design.

A hash of owner → count makes it reentrant, a thread renews the lease every third of it, and a
release publishes a message to waiters.
"""

import threading
import time
import uuid

from redis import Redis

# KEYS[1] the lock, ARGV[1] its life in ms, ARGV[2] the owner.
# Returns -1 if the lock is the owner's, else the rest of its life in ms.
ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return -1
end
return redis.call('PTTL', KEYS[1])
"""

# KEYS[1] the lock, KEYS[2] the channel, ARGV[1] its life in ms, ARGV[2] the owner.
# Returns -1 if the lock was not the owner's, else how often the owner still holds it.
RELEASE = """
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return -1
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if count > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 'unlocked')
end
return count
"""

# KEYS[1] the lock, ARGV[1] its life in ms, ARGV[2] the owner.  Returns 1 if renewed, else 0.
RENEW = """
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
"""


class WatchdogLock:
    """`lease` is the time in seconds after which the lock ends without a renewal."""

    def __init__(self, client: Redis, name: str, *, lease: float = 10.0) -> None:
        self._client = client
        self._name = name
        self._channel = f"{name}:released"
        self._lease = lease
        self._owner = uuid.uuid4().hex
        self._arguments: list[str | int] = [round(lease * 1000), self._owner]
        self._acquire = client.register_script(ACQUIRE)
        self._release = client.register_script(RELEASE)
        self._renew = client.register_script(RENEW)
        self._stop = threading.Event()
        self._watchdog: threading.Thread | None = None

    def acquire(self, timeout: float = 0.0) -> bool:
        """Wait for at most `timeout` seconds; return whether the lock was taken."""
        deadline = time.monotonic() + timeout
        rest = self._try()
        if rest < 0:
            return self._watch()
        pubsub = self._client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        with pubsub as messages:
            messages.subscribe(self._channel)
            while (rest := self._try()) >= 0:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                # A release sends a message; only a crash makes waiters wait for the TTL.
                messages.get_message(timeout=min(left, rest))
        return self._watch()

    def _try(self) -> float:
        """Return the seconds until another client's lock ends; negative if the lock is ours."""
        answer = self._acquire(keys=[self._name], args=self._arguments)
        return float(answer) / 1000

    def _watch(self) -> bool:
        self._end_watch()
        self._stop.clear()
        self._watchdog = threading.Thread(target=self._keep_renewing, daemon=True)
        self._watchdog.start()
        return True

    def _end_watch(self) -> None:
        if self._watchdog is not None:
            self._stop.set()
            self._watchdog.join()

    def _keep_renewing(self) -> None:
        while not self._stop.wait(self._lease / 3):
            if not self._renew(keys=[self._name], args=self._arguments):
                return

    def release(self) -> None:
        """Release one hold, and the lock with the last; stops the watchdog first."""
        self._end_watch()
        count = self._release(keys=[self._name, self._channel], args=self._arguments)
        if count > 0:
            self._watch()
