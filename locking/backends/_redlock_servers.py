"""The servers of a Redlock, and its operations on a majority of them, as steps."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from locking.backends._drivers import address_of
from locking.backends._driving import drive, drive_async
from locking.backends._waiting import Deadline
from locking.backends.redis_steps import text
from locking.base import Clock, LockUnavailable
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


class Servers:
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
