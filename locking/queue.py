"""A queue of ids that become due later, such as "cancel this order in 15 minutes".

It makes sooner what a sweep over the database would find anyway; the database stays the truth.
An id is in the queue at most once.  Whoever pops ids has to acknowledge them when the work is done;
what a crashed consumer did not acknowledge comes back.  Every operation is one atomic script, so
any number of consumers may share a queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis import Redis, RedisCluster

from locking.backends.redis_lease import text
from locking.backends.redis_protocol import Script
from locking.backends.redis_transport import Transport, transport_for

CLAIM = 60.0
"""Seconds in which popped ids have to be acknowledged: longer than the work on a batch takes, short
enough that a crashed consumer's batch is not missed."""

ENQUEUE, TOP, POP, ACKNOWLEDGE, DEQUEUE, DISCARD, SIZE = (
    Script.load(f"queue_{name}")
    for name in ("enqueue", "top", "pop", "acknowledge", "dequeue", "discard", "size")
)


@dataclass(frozen=True, slots=True)
class Due:
    """An id that is due: `score` says since when, in seconds of the server's clock."""

    id: str
    score: float
    claimed_until: float = 0.0
    """When it comes back if it is not acknowledged; 0 if it was only read, not popped."""


class DelayQueue:
    """A queue of unique ids by the time at which they are due.

    `claim` is in seconds.  A command whose reply is lost raises redis-py's error and may have been
    carried out: entering again is harmless, and popped ids that nobody saw come back.
    """

    def __init__(
        self, client: Redis | RedisCluster | Transport, name: str, *, claim: float = CLAIM
    ) -> None:
        self.name = name
        self._claim = claim
        self._transport = transport_for(client)
        self._keys = (f"queue:{{{name}}}", f"queue:{{{name}}}:in-flight")

    def enqueue(self, ids: Iterable[str], delay: float, *, reschedule: bool = False) -> int:
        """Enter the ids, due in `delay` seconds; how many that changed.

        An id that is in the queue, waiting or in flight, stays as it is, unless `reschedule` gives
        it the new time.
        """
        known = [str(one) for one in ids]
        if not known:
            return 0
        return int(self._run(ENQUEUE, _ms(delay), "1" if reschedule else "0", *known))

    def top(self, count: int = 1) -> list[Due]:
        """Read up to `count` ids that are due, the longest due first, without taking them."""
        flat = self._run(TOP, str(count))
        return [Due(text(one), _seconds(at)) for one, at in _groups(flat, 2)]

    def pop(self, count: int = 1) -> list[Due]:
        """Take up to `count` ids that are due, the longest due first; `acknowledge` them later."""
        flat = self._run(POP, str(count), _ms(self._claim))
        return [
            Due(text(one), _seconds(at), _seconds(until)) for one, at, until in _groups(flat, 3)
        ]

    def acknowledge(self, taken: Iterable[Due]) -> int:
        """Say that the work on popped ids is done; how many of them were still ours.

        A claim that ended may be another consumer's by now; that one's is not touched.
        """
        words = [word for one in taken for word in (one.id, _ms(one.claimed_until))]
        return int(self._run(ACKNOWLEDGE, *words)) if words else 0

    def dequeue(self, one: str, score: float) -> bool:
        """Take a waiting id out, for good; False if it is gone, or its score is another by now."""
        return bool(self._run(DEQUEUE, one, _ms(score)))

    def discard(self, ids: Iterable[str]) -> int:
        """Take ids out, whenever they were due; how many were in the queue, waiting or in flight.

        For ids whose cause is gone. A consumer that has popped one goes on with it all the same.
        """
        known = [str(one) for one in ids]
        return int(self._run(DISCARD, *known)) if known else 0

    def __len__(self) -> int:
        """How many ids wait, due or not."""
        return int(self._run(SIZE)[0])

    def in_flight(self) -> int:
        """How many ids are popped and not acknowledged."""
        return int(self._run(SIZE)[1])

    def next_due(self) -> float | None:
        """When to pop next, in seconds of the server's clock; None if there is nothing to wait for.

        That may be the end of another consumer's claim.
        """
        first = self._run(SIZE)[2]
        return _seconds(first) if first else None

    def _run(self, script: Script, *args: str) -> Any:
        return self._transport.run(script, self._keys, args)


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _seconds(milliseconds: bytes | str) -> float:
    return float(milliseconds) / 1000


def _groups(flat: list[Any], size: int) -> zip[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)
