"""A queue of ids that become due later, such as "cancel this order in 15 minutes".

The queue only speeds up what a sweep over the database finds anyway; the database is authoritative.
An id is in the queue at most once.  A consumer acknowledges popped ids when the work is done; the
ids of a crashed consumer become due again.  Every operation is one atomic script, so any number of
consumers can share a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from locking.backends.redis_protocol import Script, text
from locking.backends.redis_transport import transport_for
from locking.backends.redis_transport_async import async_transport_for

T = TypeVar("T")

CLAIM = 60.0
"""Seconds within which a consumer must acknowledge popped ids: longer than the work on a batch,
short enough that a crashed consumer's batch is not delayed noticeably."""

ENQUEUE, TOP, POP, ACKNOWLEDGE, DEQUEUE, DISCARD, SIZE = (
    Script.load(f"queue_{name}")
    for name in ("enqueue", "top", "pop", "acknowledge", "dequeue", "discard", "size")
)


@dataclass(frozen=True, slots=True)
class Due:
    """A due id; `score` is the time it became due, in seconds of the server's clock."""

    id: str
    score: float
    claimed_until: float = 0.0
    """The time at which an unacknowledged id becomes due again; 0 if it was read, not popped."""


@dataclass(frozen=True, slots=True)
class _Call(Generic[T]):
    """A command to a queue: what to send, and how to read the answer."""

    script: Script
    args: list[str]
    read: Callable[[Any], T]


class _Queue:
    """A queue's name, its keys and its commands, for blocking and asyncio clients.

    `claim` is in seconds.  A command whose reply is lost raises redis-py's error and may have been
    executed: enqueueing again is harmless, and ids in a lost reply become due again.
    """

    def __init__(self, name: str, claim: float) -> None:
        self.name = name
        self._claim = claim
        self._keys = (f"queue:{{{name}}}", f"queue:{{{name}}}:in-flight")

    def _enqueue(self, ids: list[str], delay: float, reschedule: bool) -> _Call[int]:
        return _Call(ENQUEUE, [_ms(delay), "1" if reschedule else "0", *ids], int)

    def _pop(self, count: int) -> _Call[list[Due]]:
        return _Call(POP, [str(count), _ms(self._claim)], partial(_dues, size=3))

    def _top(self, count: int) -> _Call[list[Due]]:
        return _Call(TOP, [str(count)], partial(_dues, size=2))

    def _acknowledge(self, taken: Iterable[Due]) -> _Call[int]:
        words = [word for one in taken for word in (one.id, _ms(one.claimed_until))]
        return _Call(ACKNOWLEDGE, words, int)

    def _dequeue(self, one: str, score: float) -> _Call[bool]:
        return _Call(DEQUEUE, [one, _ms(score)], bool)


WAITING: _Call[int] = _Call(SIZE, [], lambda answer: int(answer[0]))
IN_FLIGHT: _Call[int] = _Call(SIZE, [], lambda answer: int(answer[1]))
NEXT_DUE: _Call[float | None] = _Call(
    SIZE, [], lambda answer: _seconds(answer[2]) if answer[2] else None
)


class DelayQueue(_Queue):
    """A queue of unique ids, ordered by the time at which they are due.

    `client` is a blocking client of redis-py or valkey-py, or a URL.  `claim` is in seconds.  A
    command whose reply is lost raises redis-py's error and may have been executed: enqueueing again
    is harmless, and ids in a lost reply become due again.
    """

    def __init__(self, client: Any, name: str, *, claim: float = CLAIM) -> None:
        super().__init__(name, claim)
        self._transport = transport_for(client)

    def enqueue(self, ids: Iterable[str], delay: float, *, reschedule: bool = False) -> int:
        """Enqueue the ids, due in `delay` seconds; return how many were added or moved.

        An id that is already waiting or in flight keeps its time unless `reschedule` is set.
        """
        known = [str(one) for one in ids]
        return self._run(self._enqueue(known, delay, reschedule)) if known else 0

    def top(self, count: int = 1) -> list[Due]:
        """Read up to `count` due ids, the longest due first, without taking them."""
        return self._run(self._top(count))

    def pop(self, count: int = 1) -> list[Due]:
        """Take up to `count` due ids, the longest due first; `acknowledge` them later."""
        return self._run(self._pop(count))

    def acknowledge(self, taken: Iterable[Due]) -> int:
        """Confirm that the work on popped ids is done; return how many were still claimed by us.

        After a claim has expired, another consumer may hold the id; its claim is not touched.
        """
        call = self._acknowledge(taken)
        return self._run(call) if call.args else 0

    def dequeue(self, one: str, score: float) -> bool:
        """Remove a waiting id; return False if it is gone or its score has changed."""
        return self._run(self._dequeue(one, score))

    def discard(self, ids: Iterable[str]) -> int:
        """Remove ids, waiting or in flight; return how many were in the queue.

        For ids that no longer need work.  A consumer that has already popped one still handles it.
        """
        known = [str(one) for one in ids]
        return self._run(_Call(DISCARD, known, int)) if known else 0

    def __len__(self) -> int:
        """Return how many ids wait, due or not."""
        return self._run(WAITING)

    def in_flight(self) -> int:
        """Return how many ids are popped and not acknowledged."""
        return self._run(IN_FLIGHT)

    def next_due(self) -> float | None:
        """Return when to pop next, in seconds of the server's clock; None if the queue is empty.

        That may be the expiry of another consumer's claim.
        """
        return self._run(NEXT_DUE)

    def _run(self, call: _Call[T]) -> T:
        return call.read(self._transport.run(call.script, self._keys, call.args))


class AsyncDelayQueue(_Queue):
    """The asyncio version of `DelayQueue`: both work on the same queue."""

    def __init__(self, client: Any, name: str, *, claim: float = CLAIM) -> None:
        super().__init__(name, claim)
        self._transport = async_transport_for(client)

    async def enqueue(self, ids: Iterable[str], delay: float, *, reschedule: bool = False) -> int:
        """See `DelayQueue.enqueue`."""
        known = [str(one) for one in ids]
        return await self._run(self._enqueue(known, delay, reschedule)) if known else 0

    async def top(self, count: int = 1) -> list[Due]:
        """See `DelayQueue.top`."""
        return await self._run(self._top(count))

    async def pop(self, count: int = 1) -> list[Due]:
        """See `DelayQueue.pop`."""
        return await self._run(self._pop(count))

    async def acknowledge(self, taken: Iterable[Due]) -> int:
        """See `DelayQueue.acknowledge`."""
        call = self._acknowledge(taken)
        return await self._run(call) if call.args else 0

    async def dequeue(self, one: str, score: float) -> bool:
        """See `DelayQueue.dequeue`."""
        return await self._run(self._dequeue(one, score))

    async def discard(self, ids: Iterable[str]) -> int:
        """See `DelayQueue.discard`."""
        known = [str(one) for one in ids]
        return await self._run(_Call(DISCARD, known, int)) if known else 0

    async def waiting(self) -> int:
        """Return how many ids wait, due or not."""
        return await self._run(WAITING)

    async def in_flight(self) -> int:
        """See `DelayQueue.in_flight`."""
        return await self._run(IN_FLIGHT)

    async def next_due(self) -> float | None:
        """See `DelayQueue.next_due`."""
        return await self._run(NEXT_DUE)

    async def _run(self, call: _Call[T]) -> T:
        return call.read(await self._transport.run(call.script, self._keys, call.args))


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _seconds(milliseconds: bytes | str) -> float:
    return float(milliseconds) / 1000


def _dues(flat: list[Any], size: int) -> list[Due]:
    groups = zip(*[iter(flat)] * size, strict=True)
    return [Due(text(one), *map(_seconds, times)) for one, *times in groups]
