"""Lesson 9, fixed: every grant counts up, and the holder writes with its number."""

from redis import Redis

from course.lessons.lesson_09_watchdog.lock import WatchdogLock

# As in the lesson, with KEYS[2] the counter of grants.
# Returns minus the number of the grant if the lock is the owner's, else the rest of its life in ms.
ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return -redis.call('INCR', KEYS[2])
end
return redis.call('PTTL', KEYS[1])
"""


class FencedWatchdogLock(WatchdogLock):
    """The lesson's lock; `token` is the number of its latest grant."""

    def __init__(self, client: Redis, name: str, *, lease: float = 10.0) -> None:
        super().__init__(client, name, lease=lease)
        self._acquire = client.register_script(ACQUIRE)
        self.token = 0

    def _try(self) -> float:
        keys = [self._name, f"{self._name}:fence"]
        answer = self._acquire(keys=keys, args=self._arguments)
        if answer < 0:
            self.token = -answer
        return float(answer) / 1000
