"""Redlock: one lock on a majority of independent Redis (or Valkey) servers.

Guarantees: clients can acquire and release while a minority of the servers is down.  Mutual
exclusion holds as long as clocks run at about the same rate, no client is paused past its lease,
and no server restarts without its data within a lease; keep such a server offline for one lease.
All servers are asked at once, so that silent ones cost one time-out together.

Limits: if one of these conditions fails, two clients may hold the lock, and there is *no fencing
token* by which the guarded resource could notice, because counters on independent servers have no
common order.  Not fair: waiters poll with a growing, jittered pause.  For almost every use, the
`redis` backend on one server with a replica is faster, fair and fenced.

Sources: "Distributed Locks with Redis", redis.io; for the limits, M. Kleppmann, "How to do
distributed locking", 2016.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import redis
from redis.exceptions import RedisError

from locking.backends._drivers import address_of
from locking.backends._waiting import BackendLease, PollingLock
from locking.backends.redis_protocol import text
from locking.base import Lease
from locking.redis_client import connect
from locking.terms import Capabilities, LockUnavailable

logger = logging.getLogger(__name__)

# s; a server that is down must not use up the lease.
TIMEOUT = 0.1
# A share of the lease, for clocks of different rates, plus 2 ms for Redis's resolution of 1 ms.
DRIFT = 0.01
RESOLUTION = 0.002

# KEYS[1] lock, ARGV[1] our value.  Returns 1 deleted; 0 not ours and unchanged.
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
# KEYS[1] lock, ARGV[1] our value, ARGV[2] ms.  Returns 1 extended; 0 not ours and unchanged.
EXTEND = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""


def redlock_clients(urls: Sequence[str]) -> list[redis.Redis]:
    """Return clients for Redlock: with short time-outs and without retries."""
    return [cast("redis.Redis", connect(url, timeout=TIMEOUT)) for url in urls]


def with_drift(seconds: float) -> int:
    """Return the ms for which servers must keep the key so that we can rely on `seconds`."""
    return round((seconds * (1 + DRIFT) + RESOLUTION) * 1000)


class RedLockLease(BackendLease):
    """A lease backed by the same key and value on a majority of the servers."""

    __slots__ = ("gone_from", "silent")

    def __init__(self, lock: RedLock, value: str, *, sent_at: float) -> None:
        super().__init__(lock, value, sent_at=sent_at)
        self.gone_from: set[int] = set()  # servers that have confirmed our release
        self.silent: set[int] = set()  # those that may have run it and did not answer


class RedLock(PollingLock):
    """A lock on a majority of `clients`, each of an independent server."""

    capabilities = Capabilities()

    def __init__(self, clients: Sequence[redis.Redis], name: str, **options: Any) -> None:
        if len(clients) < 3 or len(clients) % 2 == 0:
            raise ValueError("Redlock needs an odd number of servers, and at least three")
        super().__init__(name, **options)
        self.clients = clients
        self.quorum = len(clients) // 2 + 1
        self.key = f"redlock:{name}"
        self._address = ",".join(sorted(address_of(client.connection_pool) for client in clients))

    def _try(self, value: str, sent_at: float) -> Lease | None:
        keep = with_drift(self.lease_seconds)
        lease = RedLockLease(self, value, sent_at=sent_at)
        granted = False
        try:
            answers = self.ask(lambda client: client.set(self.key, value, nx=True, px=keep))
            self.majority_of(0, answers)
            agreed = sum(map(bool, answers.values()))
            granted = agreed >= self.quorum and lease.remaining() > 0
        finally:
            # Also on servers that seemed to refuse: the answer may be lost, not the command.
            if not granted:
                self.release_everywhere(value)
        return lease if granted else None

    def _let_go(self, lease: RedLockLease) -> bool:
        answers = self.release_everywhere(lease.grant)
        lease.gone_from |= {s for s, answer in answers.items() if answer == 1 or s in lease.silent}
        lease.silent |= set(range(len(self.clients))) - answers.keys()
        return self.majority_of(len(lease.gone_from), answers)

    def _prolong(self, lease: RedLockLease, seconds: float) -> bool:
        keep = with_drift(seconds)
        answers = self.ask(lambda client: client.eval(EXTEND, 1, self.key, lease.grant, keep))
        return self.majority_of(sum(answer == 1 for answer in answers.values()), answers)

    def release_everywhere(self, value: str) -> dict[int, Any]:
        """Delete the key where it has that value; return the answers by server number."""
        return self.ask(lambda client: client.eval(RELEASE, 1, self.key, value))

    def owner(self) -> str | None:
        """See `Lock.owner`: the value on which a majority agrees."""
        answers = self.ask(lambda client: client.get(self.key))
        values = Counter(value for value in answers.values() if value is not None)
        self.majority_of(0, answers)
        for value, servers in values.most_common(1):
            if servers >= self.quorum:
                return text(value).rpartition("|")[0]
        return None

    def _evict(self) -> bool:
        answers = self.ask(lambda client: client.delete(self.key))
        return self.majority_of(sum(answers.values()), answers)

    def majority_of(self, agreed: int, answers: dict[int, Any]) -> bool:
        """Return whether a majority agreed; raise `LockUnavailable` if missing answers decide."""
        if agreed >= self.quorum:
            return True
        silent = len(self.clients) - len(answers)
        if agreed + silent >= self.quorum:
            raise LockUnavailable(f"{silent} of {len(self.clients)} servers do not answer")
        return False

    def ask(self, command: Callable[[redis.Redis], Any]) -> dict[int, Any]:
        """Send a command to all servers at once; return the answers by server number."""
        answers: dict[int, Any] = {}

        def ask(server: int, client: redis.Redis) -> None:
            try:
                answers[server] = command(client)
            except RedisError as error:
                logger.debug("Redlock server %d of %r: %s", server, self.name, error)

        # An interrupted caller waits as well: its next command must not overtake this one.
        with ThreadPoolExecutor(len(self.clients), "redlock") as threads:
            for asked in [threads.submit(ask, *each) for each in enumerate(self.clients)]:
                asked.result()
        return answers
