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

import asyncio
import logging
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Self, TypeVar

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from locking.backends._drivers import address_of
from locking.backends._driving import acquires_alone, drive, drive_async
from locking.backends._waiting import Deadline, WaitingLock, default_owner
from locking.backends.redis_steps import text
from locking.base import (
    NO_HOOKS,
    SYSTEM_CLOCK,
    AsyncLock,
    Capabilities,
    Clock,
    Held,
    Hooks,
    Lease,
    LeaseState,
    LockError,
    LockTimeout,
    LockUnavailable,
    time_limit,
)
from locking.terms import lease_length

T = TypeVar("T")

Steps = Generator["tuple[Any, ...] | float", Any, T]
"""The steps of an operation: a command for all servers, as the client's method and its arguments,
which is answered with what each server answered, by its number; or a pause in seconds."""

logger = logging.getLogger(__name__)

# s; a server that is down must not use up the lease.
TIMEOUT = 0.1
# A share of the lease, for clocks of different rates, plus 2 ms for Redis's resolution of 1 ms.
DRIFT = 0.01
RESOLUTION = 0.002
MAX_PAUSE = 0.1  # s; between tries of a waiter

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
    """Return the ms for which servers must keep the key so that we can rely on `seconds`."""
    return round((seconds * (1 + DRIFT) + RESOLUTION) * 1000)


class _Servers:
    """A lock on a majority of servers: its operations, as steps."""

    def __init__(self, clients: Sequence[Any], name: str, lease: float) -> None:
        if len(clients) < 3 or len(clients) % 2 == 0:
            raise ValueError("Redlock needs an odd number of servers, and at least three")
        self.clients = clients
        self.name = name
        self.quorum = len(clients) // 2 + 1
        self.lease_seconds = lease_length(lease)
        self.address = ",".join(sorted(address_of(client.connection_pool) for client in clients))
        self.key = f"redlock:{name}"

    def acquiring(self, make: Any, owner: str, deadline: Deadline) -> Steps[Any]:
        """Acquire; return the lease that `make` made of a value and the time of sending."""
        while True:
            value = f"{owner}|{uuid.uuid4().hex}"
            lease = make(value)
            keep = with_drift(self.lease_seconds)
            agreed = False
            try:
                answers = yield "set", self.key, value, None, keep, True
                agreed = self.majority_of(sum(bool(each) for each in answers.values()), answers)
                if agreed and lease.remaining() > 0:
                    return lease
            except BaseException as error:
                if not isinstance(error, GeneratorExit):
                    yield "eval", RELEASE, 1, self.key, value
                raise
            # Also on servers that seemed to refuse: the answer may be lost, not the command.
            yield "eval", RELEASE, 1, self.key, value
            yield deadline.next_pause(MAX_PAUSE)

    def releasing(self, value: str, gone_from: set[int]) -> Steps[bool]:
        """Release; `gone_from` are the servers that have confirmed it before."""
        answers = yield "eval", RELEASE, 1, self.key, value
        gone_from |= {server for server, answer in answers.items() if answer == 1}
        return self.majority_of(len(gone_from), answers)

    def extending(self, value: str, seconds: float) -> Steps[bool]:
        """Extend the lease."""
        answers = yield "eval", EXTEND, 1, self.key, value, with_drift(seconds)
        return self.majority_of(sum(answer == 1 for answer in answers.values()), answers)

    def finding_owner(self) -> Steps[str | None]:
        """Return the owner in the value on which a majority agrees."""
        answers = yield "get", self.key
        values = Counter(value for value in answers.values() if value is not None)
        self.majority_of(0, answers)
        for value, servers in values.most_common(1):
            if servers >= self.quorum:
                return text(value).rpartition("|")[0]
        return None

    def evicting(self, reason: str) -> Steps[bool]:
        """Revoke the lock; return whether it was held."""
        logger.warning("revoking the lock %r: %s", self.name, reason)
        answers = yield "delete", self.key
        return self.majority_of(sum(answers.values()), answers)

    def majority_of(self, agreed: int, answers: dict[int, Any]) -> bool:
        """Return whether a majority agreed; raise `LockUnavailable` if missing answers decide."""
        if agreed >= self.quorum:
            return True
        silent = len(self.clients) - len(answers)
        if agreed + silent >= self.quorum and len(answers) < self.quorum:
            raise LockUnavailable(f"{silent} of {len(self.clients)} servers do not answer")
        return False

    def note_silence(self, server: int, error: RedisError) -> None:
        """Log that a server did not answer."""
        logger.debug("Redlock server %d of %r: %s", server, self.name, error)

    def perform(self, steps: Steps[T], clock: Clock) -> T:
        """Execute the steps; return their result."""
        return drive(
            lambda step: self._ask(step) if isinstance(step, tuple) else clock.sleep(step), steps
        )

    async def perform_async(self, steps: Steps[T]) -> T:
        """Execute the steps; return their result."""
        return await drive_async(
            lambda step: self._ask_async(step) if isinstance(step, tuple) else asyncio.sleep(step),
            steps,
        )

    def _ask(self, command: tuple[Any, ...]) -> dict[int, Any]:
        """Send a command to all servers at once; return the answers by server number."""
        answers: dict[int, Any] = {}

        def ask(server: int, client: redis.Redis) -> None:
            try:
                answers[server] = _send(client, command)
            except RedisError as error:
                self.note_silence(server, error)

        asking = []
        try:
            for each in enumerate(self.clients):
                thread = threading.Thread(target=ask, args=each, name="redlock", daemon=True)
                thread.start()
                asking.append(thread)
            for thread in asking:
                thread.join()
        finally:  # an interrupted caller waits as well: its next command must not overtake this one
            for thread in asking:
                thread.join()
        return answers

    async def _ask_async(self, command: tuple[Any, ...]) -> dict[int, Any]:
        async def ask(server: int, client: Any) -> tuple[int, Any] | None:
            try:
                return server, await _send(client, command)
            except RedisError as error:
                self.note_silence(server, error)
                return None

        asking = asyncio.gather(*(ask(*each) for each in enumerate(self.clients)))
        try:
            found = await asyncio.shield(asking)
        except asyncio.CancelledError:
            await asking  # the next command must not overtake this one
            raise
        return dict(each for each in found if each is not None)


def _send(client: Any, command: tuple[Any, ...]) -> Any:
    method, *arguments = command
    if method == "set":
        key, value, _, keep, only_new = arguments
        return client.set(key, value, nx=only_new, px=keep)
    return getattr(client, method)(*arguments)


class _State(LeaseState):
    """A lease backed by the same key and value on a majority of the servers."""

    __slots__ = ("_gone_from", "_servers", "_value")

    def __init__(self, lock: RedLock | AsyncRedLock, value: str) -> None:
        """Create the lease granted to `value`; the first command is sent now."""
        super().__init__(
            lock.name,
            seconds=lock.servers.lease_seconds,
            sent_at=lock.clock.monotonic(),
            clock=lock.clock,
            hooks=lock.hooks,
        )
        self._servers = lock.servers
        self._value = value
        self._gone_from: set[int] = set()  # servers that have confirmed our release


class RedLockLease(_State, Lease):
    """A lease of a `RedLock`."""

    __slots__ = ()

    def _release(self) -> bool:
        steps = self._servers.releasing(self._value, self._gone_from)
        return self._servers.perform(steps, self.clock)

    def _extend(self, seconds: float) -> bool:
        return self._servers.perform(self._servers.extending(self._value, seconds), self.clock)


class RedLock(WaitingLock):
    """A lock on a majority of `clients`, each of an independent server."""

    capabilities = Capabilities()

    def __init__(
        self, clients: Sequence[redis.Redis], name: str, *, lease: float = 10.0, **options: Any
    ) -> None:
        """Make a handle of the lock `name`, with leases of `lease` seconds."""
        super().__init__(name, **options)
        self.servers = _Servers(clients, name, lease)
        self._address = self.servers.address

    def _acquire(self, deadline: Deadline) -> Lease:
        steps = self.servers.acquiring(
            lambda value: RedLockLease(self, value), self.owner_name, deadline
        )
        lease: Lease = self.servers.perform(steps, self.clock)
        return lease

    def owner(self) -> str | None:
        """See `Lock.owner`: the value on which a majority agrees."""
        return self.servers.perform(self.servers.finding_owner(), self.clock)

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        return self.servers.perform(self.servers.evicting(reason), self.clock)


class AsyncRedLockLease(_State):
    """A lease of an `AsyncRedLock`."""

    __slots__ = ()

    async def release(self) -> None:
        """See `Lease.release`."""
        if self._released:
            return
        self.begin_release()
        steps = self._servers.releasing(self._value, self._gone_from)
        self._note_release(await self._servers.perform_async(steps))

    async def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""
        self.check()
        seconds = self._extension(seconds)
        deadline = self.clock.monotonic() + seconds
        self._deadline = min(self._deadline, deadline)
        steps = self._servers.extending(self._value, seconds)
        self._note_extension(await self._servers.perform_async(steps), deadline)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except LockError as problem:
            if error is None:
                raise
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class AsyncRedLock(AsyncLock):
    """The asyncio version of `RedLock`; both exclude each other."""

    def __init__(
        self,
        clients: Sequence[redis.asyncio.Redis],
        name: str,
        *,
        lease: float = 10.0,
        owner: str | None = None,
        timeout: float | None = None,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make a handle of the lock `name`, with leases of `lease` seconds."""
        self.name, self.hooks, self.clock = name, hooks, clock
        self.servers = _Servers(clients, name, lease)
        self.owner_name, self.timeout = owner or default_owner(), time_limit(timeout, True)
        self._address = self.servers.address
        self.kind = RedLock.__qualname__
        self._held = Held()

    async def acquire(
        self, timeout: float | None = None, *, blocking: bool = True
    ) -> AsyncRedLockLease:
        """See `Lock.acquire`."""
        if timeout is None and blocking:
            timeout = self.timeout
        deadline = Deadline(time_limit(timeout, blocking), self.clock)
        task, acquired = asyncio.current_task(), False
        alone = acquires_alone(task, sys._getframe().f_code)
        steps = self.servers.acquiring(
            lambda value: AsyncRedLockLease(self, value), self.owner_name, deadline
        )
        try:
            lease: AsyncRedLockLease = await self.servers.perform_async(steps)
            self._held.add(None if alone else task, lease)
            acquired = True
            return lease
        except LockTimeout as error:
            raise LockTimeout(f"lock {self.name!r}: {error}") from error
        finally:
            self.hooks.waited(self.name, deadline.elapsed(), acquired)

    async def locked(self) -> bool:
        """See `Lock.locked`."""
        return await self.owner() is not None

    async def owner(self) -> str | None:
        """See `Lock.owner`."""
        return await self.servers.perform_async(self.servers.finding_owner())

    async def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        return await self.servers.perform_async(self.servers.evicting(reason))
