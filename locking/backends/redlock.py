"""Redlock: one lock on a majority of independent Redis (or Valkey) servers.

A client asks all servers, one after the other, to keep the same value under the lock's key. It
holds the lock if a majority agreed while the lease still has time left; otherwise it deletes the
value everywhere, also where it seemed not to be kept, since only the answer may have been lost.

It works while a minority of the servers is down. Two clients may hold the lock if a process is
paused past its lease, if a server's clock jumps, or if a server comes back without its data within
a lease; and there is *no fencing token* by which the guarded resource could notice, because
counters on independent servers have no common order. For almost every use `locking.redis_lock` on
one server with a replica is faster, fair and fenced.

Sources: "Distributed Locks with Redis", redis.io; for what it cannot promise, Martin Kleppmann,
"How to do distributed locking", 2016.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from redis import Redis
from redis.exceptions import RedisError

from locking.backends.common import BackendLease, Grant, PollingBackend
from locking.base import Capabilities, LockUnavailable
from locking.redis_client import connect
from locking.redis_lock import text

TIMEOUT = 0.1
"""Seconds for each server's answer: a few that are down must not use up the lease."""

DRIFT = 0.01
"""Share of the lease for which servers keep it longer, since their clocks run differently."""

RESOLUTION = 0.002
"""Seconds for which they keep it longer, since Redis counts in milliseconds."""

RELEASE = """
-- KEYS[1] lock, ARGV[1] our value. Returns 1 deleted; 0 not ours and unchanged.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
"""

EXTEND = """
-- KEYS[1] lock, ARGV[1] our value, ARGV[2] ms. Returns 1 extended; 0 not ours and unchanged.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""


def redlock_clients(urls: Sequence[str]) -> list[Redis]:
    """Return clients for Redlock, with short time-outs and without retries."""
    return [cast("Redis", connect(url, timeout=TIMEOUT)) for url in urls]


class RedLock(PollingBackend):
    """A lock on a majority of `clients`, each of an independent server.

    Args:
        clients: an odd number of blocking clients, at least three, as `redlock_clients` makes them.
        name: the lock's.
        options: `lease`, `owner` and `timeout`; see `LeasedBackend`.
    """

    server = "Redlock"
    failures = (RedisError,)
    capabilities = Capabilities(extend=True, owner=True, force_release=True)

    def __init__(self, clients: Sequence[Redis], name: str, **options: Any) -> None:
        if len(clients) < 3 or len(clients) % 2 == 0:
            raise ValueError("Redlock needs an odd number of servers, and at least three")
        super().__init__(name, **options)
        self.clients = clients
        self.quorum = len(clients) // 2 + 1
        self.key = f"redlock:{name}"

    def _try(self, value: str) -> Grant | None:
        granted = False
        try:
            answers = self._ask(
                lambda client: client.set(self.key, value, nx=True, px=with_drift(self.seconds))
            )
            granted = sum(map(bool, answers.values())) >= self.quorum
            if not granted:
                self._majority(0, answers)
        finally:
            if not granted:
                self._ask(lambda client: client.eval(RELEASE, 1, self.key, value))
        return Grant(value) if granted else None

    def _let_go(self, lease: BackendLease) -> bool:
        # Of a release that is repeated, those count that were silent: they may have executed it.
        gone, silent = lease.progress
        answers = self._ask(lambda client: client.eval(RELEASE, 1, self.key, lease.grant))
        gone = gone | {one for one, answer in answers.items() if answer == 1 or one in silent}
        silent = silent | (set(range(len(self.clients))) - answers.keys())
        lease.progress = gone, silent
        return self._majority(len(gone), answers)

    def _prolong(self, lease: BackendLease, seconds: float) -> bool:
        keep = with_drift(seconds)
        answers = self._ask(lambda client: client.eval(EXTEND, 1, self.key, lease.grant, keep))
        return self._majority(sum(answer == 1 for answer in answers.values()), answers)

    def owner(self) -> str | None:
        """See `Lock.owner`: the value on which a majority agrees."""
        answers = self._ask(lambda client: client.get(self.key))
        self._majority(0, answers)
        values = Counter(answer for answer in answers.values() if answer is not None)
        for value, servers in values.most_common(1):
            if servers >= self.quorum:
                return text(value).rpartition("|")[0]
        return None

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        answers = self._ask(lambda client: client.delete(self.key))
        held = self._majority(sum(answers.values()), answers)
        return self._log_eviction(held, reason)

    def _majority(self, agreed: int, answers: dict[int, Any]) -> bool:
        """Return whether a majority agreed.

        Raises:
            LockUnavailable: that depends on servers that do not answer.
        """
        silent = len(self.clients) - len(answers)
        if agreed < self.quorum <= agreed + silent:
            raise LockUnavailable(f"{silent} of {len(self.clients)} servers do not answer")
        return agreed >= self.quorum

    def _ask(self, command: Callable[[Redis], Any]) -> dict[int, Any]:
        """Send a command to one server after the other; return the answers by their numbers."""
        answers = {}
        for number, client in enumerate(self.clients):
            try:
                answers[number] = command(client)
            except RedisError:
                continue
        return answers


def with_drift(seconds: float) -> int:
    """Return for how many ms servers must keep a key on which a client relies for `seconds`."""
    return round((seconds * (1 + DRIFT) + RESOLUTION) * 1000)
