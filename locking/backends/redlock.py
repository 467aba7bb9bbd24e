"""Redlock: one lock on a majority of independent Redis (or Valkey) servers.

Guaranteed: the lock can be had, and let go, while a minority of the servers is down; mutual
exclusion as long as clocks run at about the same rate, no client is paused between the servers'
answers and its own work for longer than its lease, and no server forgets keys by restarting empty
within a lease.  A server that was restarted without its data must stay away for one lease.

Not guaranteed: exclusion where one of these fails, and there is *no fencing token* with which what
the lock guards could notice: counters on several servers do not agree on an order.  No fairness;
waiters poll, with a growing and jittered pause.  For almost every use the `redis` backend on one
server with a replica is faster, fair and fenced.

Sources: "Distributed Locks with Redis", redis.io; M. Kleppmann, "How to do distributed locking",
2016, for what it does not do.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from locking.backends._waiting import Deadline, WaitingLock
from locking.base import Capabilities, Lease, LockUnavailable

logger = logging.getLogger(__name__)

# s; a server that is down must not eat up the lease while the others are asked.
TIMEOUT = 0.1
# Of a lease, for clocks that do not run at the same rate; and 2 ms for Redis's resolution of 1 ms.
DRIFT = 0.01
RESOLUTION = 0.002
MAX_PAUSE = 0.1  # s; between tries of a waiter

# KEYS[1] lock, ARGV[1] our value.  1 deleted; 0 not ours, and left alone.
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
# KEYS[1] lock, ARGV[1] our value, ARGV[2] ms.  1 extended; 0 not ours: never made again.
EXTEND = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""


def redlock_clients(urls: Sequence[str]) -> list[redis.Redis]:
    """Return clients as Redlock needs them: impatient, and never repeating a command by itself."""
    return [
        redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        for url in urls
    ]


def with_drift(seconds: float) -> int:
    """Return the ms for which servers must keep what we count on for `seconds`."""
    return round((seconds * (1 + DRIFT) + RESOLUTION) * 1000)


class RedLockLease(Lease):
    """The same value under the same key on a majority of the servers."""

    __slots__ = ("_gone_from", "_lock", "_value")

    def __init__(self, lock: RedLock, value: str, sent_at: float) -> None:
        """Describe what was granted to `value` by commands of which the first left at `sent_at`."""
        super().__init__(
            lock.name, seconds=lock.lease, sent_at=sent_at, clock=lock.clock, hooks=lock.hooks
        )
        self._lock = lock
        self._value = value
        self._gone_from: set[int] = set()  # servers that have confirmed our release

    def _release(self) -> bool:
        answers = self._lock._ask(
            lambda client: client.eval(RELEASE, 1, self._lock.key, self._value)
        )
        self._gone_from |= {server for server, answer in answers.items() if answer == 1}
        return self._lock._majority_of(len(self._gone_from), answers)

    def _extend(self, seconds: float) -> bool:
        arguments = (self._lock.key, self._value, with_drift(seconds))
        answers = self._lock._ask(lambda client: client.eval(EXTEND, 1, *arguments))
        return self._lock._majority_of(sum(answer == 1 for answer in answers.values()), answers)


class RedLock(WaitingLock):
    """A lock on a majority of `clients`, each of a server that knows nothing of the others."""

    capabilities = Capabilities()

    def __init__(
        self, clients: Sequence[redis.Redis], name: str, *, lease: float = 10.0, **options: Any
    ) -> None:
        """Make a handle of the lock `name`, to be held for `lease` seconds at a time."""
        super().__init__(name, **options)
        if len(clients) < 3 or len(clients) % 2 == 0:
            raise ValueError("Redlock needs an odd number of servers, and at least three")
        self.clients = clients
        self.quorum = len(clients) // 2 + 1
        self.lease = lease
        self.key = f"redlock:{name}"

    def _acquire(self, deadline: Deadline) -> Lease:
        while True:
            lease = self._try()
            if lease is not None:
                return lease
            deadline.pause(MAX_PAUSE)

    def _try(self) -> Lease | None:
        value = f"{self.owner_name}|{uuid.uuid4().hex}"
        sent_at = self.clock.monotonic()
        keep = with_drift(self.lease)
        lease = RedLockLease(self, value, sent_at)
        try:
            answers = self._ask(lambda client: client.set(self.key, value, nx=True, px=keep))
            agreed = self._majority_of(sum(bool(answer) for answer in answers.values()), answers)
            if agreed and lease.remaining() > 0:
                return lease
        except BaseException:
            self._give_up(value)
            raise
        self._give_up(value)
        return None

    def _give_up(self, value: str) -> None:
        # Also where it seemed not to be set: the answer may have been lost, not the command.
        self._ask(lambda client: client.eval(RELEASE, 1, self.key, value))

    def _ask(self, command: Callable[[redis.Redis], Any]) -> dict[int, Any]:
        """Send a command to all servers; the answers of those that gave one."""
        answers = {}
        for server, client in enumerate(self.clients):
            try:
                answers[server] = command(client)
            except RedisError as error:
                logger.debug("Redlock server %d of %r: %s", server, self.name, error)
        return answers

    def _majority_of(self, agreed: int, answers: dict[int, Any]) -> bool:
        """Whether enough servers agreed; `LockUnavailable` if the silent ones would decide it."""
        if agreed >= self.quorum:
            return True
        silent = len(self.clients) - len(answers)
        if agreed + silent >= self.quorum and len(answers) < self.quorum:
            raise LockUnavailable(f"{silent} of {len(self.clients)} servers do not answer")
        return False

    def owner(self) -> str | None:
        """See `Lock.owner`: the value on which a majority agrees."""
        answers = self._ask(lambda client: client.get(self.key))
        values = Counter(value for value in answers.values() if value is not None)
        self._majority_of(0, answers)
        for value, servers in values.most_common(1):
            if servers >= self.quorum:
                return str(value.decode().rpartition("|")[0])
        return None

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        logger.warning("taking the lock %r away: %s", self.name, reason)
        answers = self._ask(lambda client: client.delete(self.key))
        return self._majority_of(sum(answers.values()), answers)
