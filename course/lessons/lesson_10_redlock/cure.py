"""Lesson 10, fixed: a majority counts the grants, and learns the number before the work begins.

The largest of the counters alone is not enough: another majority may not have seen it.  So the
client writes its number back, and holds the lock only if a majority took it in time.
"""

import time
from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from course.lessons.lesson_10_redlock.lock import DRIFT, DRIFT_FLOOR, RedlockLock

# KEYS[1] the lock, KEYS[2] the counter, ARGV[1] the token, ARGV[2] the lease in ms.
# Returns the number of the grant, 0 if the lock is another's.
TAKE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
"""

# KEYS[1] the lock, KEYS[2] the counter, ARGV[1] the token, ARGV[2] the number.
# Returns 1 if the lock is still ours and the counter is at least the number now, else 0.
RAISE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call('GET', KEYS[2])) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
end
return 1
"""


class FencedRedlockLock(RedlockLock):
    """The lesson's lock; `token` is the number of its latest grant."""

    def __init__(self, clients: Sequence[Redis], name: str, *, ttl: float = 10.0) -> None:
        super().__init__(clients, name, ttl=ttl)
        self.token = 0
        self._takes = [client.register_script(TAKE) for client in clients]
        self._raises = [client.register_script(RAISE) for client in clients]

    def _try(self) -> bool:
        started = time.monotonic()
        grants = self._ask(self._takes, round(self._ttl * 1000))
        self.token = max(grants, default=0)
        votes = self._ask(self._raises, self.token) if len(grants) > len(self._clients) // 2 else []
        valid = self._ttl * (1 - DRIFT) - DRIFT_FLOOR - (time.monotonic() - started)
        if len(votes) > len(self._clients) // 2 and valid > 0:
            return True
        self.release()
        return False

    def _ask(self, scripts: Sequence[Any], value: int) -> list[int]:
        """Run a script on every server; return the answers that are not 0."""
        answers = []
        for script in scripts:
            try:
                keys = [self._name, f"{self._name}:fence"]
                answers.append(int(script(keys=keys, args=[self._token, value])))
            except RedisError:
                continue  # a server that is down casts no vote
        return [answer for answer in answers if answer]
