"""A queue of ids that become due later, such as "cancel this order in 15 minutes".

It makes punctual what a sweep over the database finds anyway; the database stays the truth. An id
is in the queue at most once. A consumer acknowledges popped ids when their work is done; those of a
consumer that has crashed become due again. Each operation is one script (`locking/lua/queue*.lua`),
so any number of consumers can share a queue.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from locking import redis_lock, redis_lock_async
from locking.base import lease_seconds, lock_name
from locking.redis_lock import NO_ANSWER, Script, lock_error

CLAIM = 60.0
"""Seconds within which a consumer acknowledges popped ids: longer than the work on a batch, short
enough that the batch of a crashed consumer is hardly delayed."""

ENQUEUE = Script.load("queue_enqueue")
TOP = Script.load("queue_top")
POP = Script.load("queue_pop")
ACKNOWLEDGE = Script.load("queue_acknowledge")
DEQUEUE = Script.load("queue_dequeue")
DISCARD = Script.load("queue_discard")
SIZE = Script.load("queue_size")


@dataclass(frozen=True, slots=True)
class Due:
    """A due id; `score` is the time it became due, in seconds of the server's clock."""

    id: str
    score: float
    claimed_until: float = 0.0
    """The time at which an unacknowledged id becomes due again; 0 if it was read, not popped."""


class Queue(ABC):
    """The operations of `DelayQueue` and `AsyncDelayQueue`.

    Ids are text; bytes stand for the text that they encode in UTF-8, and other bytes are kept too.
    A command without an answer raises `LockUnavailable` and may have been executed: to enqueue
    again is harmless, and ids whose answer was lost become due again.

    Args:
        client: of redis-py.
        name: the queue's.
        claim: seconds within which a consumer acknowledges what it has popped.
    """

    def __init__(self, client: Any, name: str, *, claim: float = CLAIM) -> None:
        self.name = lock_name(name)
        self._key = f"queue:{{{name}}}"
        self._claim = _ms(lease_seconds(claim))
        self._server = self._server_of(client)

    @abstractmethod
    def _server_of(self, client: Any) -> Any:
        """Return what sends the commands."""

    @abstractmethod
    def _run(self, script: Script, read: Callable[[Any], Any], *words: str | bytes) -> Any:
        """Run a script once; return what `read` makes of the answer, or what to await for it."""

    def enqueue(self, ids: Iterable[str | bytes], delay: float, *, reschedule: bool = False) -> Any:
        """Enqueue the ids, due in `delay` seconds; return how many were added or moved.

        An id that is already waiting or in flight keeps its time unless `reschedule` is set.
        """
        if (
            isinstance(delay, bool)
            or not isinstance(delay, int | float)
            or not math.isfinite(delay)
        ):
            raise TypeError(f"a delay is a number of seconds, not {delay!r}")
        return self._run(ENQUEUE, int, _ms(delay), "1" if reschedule else "0", *_several(ids))

    def top(self, count: int = 1) -> Any:
        """Return up to `count` due ids (`Due`), the longest due first, without taking them."""
        return self._run(TOP, partial(_dues, size=2), str(count))

    def pop(self, count: int = 1) -> Any:
        """Take up to `count` due ids (`Due`), the longest due first; `acknowledge` them later."""
        return self._run(POP, partial(_dues, size=3), str(count), self._claim)

    def acknowledge(self, taken: Iterable[Due]) -> Any:
        """Confirm that the work on popped ids is done; return how many were still claimed by us.

        After a claim has expired, another consumer may hold the id; its claim is not touched.
        """
        words: list[str | bytes] = []
        for due in taken:
            words += [_id(due.id), _ms(due.claimed_until)]
        return self._run(ACKNOWLEDGE, int, *words)

    def dequeue(self, one: str | bytes, score: float) -> Any:
        """Remove a waiting id; return False if it is gone or its score has changed."""
        return self._run(DEQUEUE, bool, _id(one), _ms(score))

    def discard(self, ids: Iterable[str | bytes]) -> Any:
        """Remove ids, waiting or in flight; return how many were in the queue.

        For ids that no longer need work.  A consumer that has already popped one still handles it.
        """
        return self._run(DISCARD, int, *_several(ids))

    def waiting(self) -> Any:
        """Return how many ids wait, due or not."""
        return self._run(SIZE, lambda answer: int(answer[0]))

    def in_flight(self) -> Any:
        """Return how many ids are popped and not acknowledged."""
        return self._run(SIZE, lambda answer: int(answer[1]))

    def next_due(self) -> Any:
        """Return when to pop next, in seconds of the server's clock; None if the queue is empty.

        That may be the expiry of another consumer's claim.
        """
        return self._run(SIZE, lambda answer: _seconds(answer[2]) if answer[2] else None)


class DelayQueue(Queue):
    """A queue of ids on Redis or Valkey; `client` is a blocking client of redis-py."""

    def _server_of(self, client: Any) -> Any:
        return redis_lock.server_of(client)

    def _run(self, script: Script, read: Callable[[Any], Any], *words: str | bytes) -> Any:
        try:
            return read(redis_lock.run(self._server, script, self._key, *words))
        except (*NO_ANSWER, RedisError) as error:
            raise lock_error(self.name, error) from error

    def __len__(self) -> int:
        """Return how many ids wait, due or not."""
        return int(self.waiting())


class AsyncDelayQueue(Queue):
    """The same queue for asyncio: each method returns what to await."""

    def _server_of(self, client: Any) -> Any:
        return redis_lock_async.server_of(client)

    async def _run(self, script: Script, read: Callable[[Any], Any], *words: str | bytes) -> Any:
        try:
            within = redis_lock_async.traffic_of(self._server).timeout
            answer = await redis_lock_async.run(
                self._server, script, self._key, *words, within=within
            )
        except (*redis_lock_async.UNKNOWN, RedisError) as error:
            raise lock_error(self.name, error) from error
        return read(answer)


def _several(ids: Iterable[str | bytes]) -> list[bytes]:
    if isinstance(ids, str | bytes):  # each of its letters would be an id
        raise TypeError(f"ids are several, such as [{ids!r}], not {ids!r}")
    return [_id(one) for one in ids]


def _id(one: object) -> bytes:
    return one if isinstance(one, bytes) else str(one).encode(errors="surrogateescape")


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _seconds(milliseconds: bytes | str) -> float:
    return float(milliseconds) / 1000


def _dues(flat: list[Any], size: int) -> list[Due]:
    found = []
    for start in range(0, len(flat), size):
        one, *times = flat[start : start + size]
        text = one.decode(errors="surrogateescape") if isinstance(one, bytes) else one
        found.append(Due(text, *map(_seconds, times)))
    return found
