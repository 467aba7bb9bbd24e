"""A queue of ids that become due later, such as "cancel this order in 15 minutes".

The queue only speeds up what a sweep over the database finds anyway; the database is authoritative.
An id is in the queue at most once.  A consumer acknowledges popped ids when the work is done; the
ids of a crashed consumer become due again.  Every operation is one atomic script, so any number of
consumers can share a queue.
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


class DelayQueue:
    """A queue of unique ids, ordered by the time at which they are due.

    `claim` is in seconds.  A command whose reply is lost raises redis-py's error and may have been
    executed: enqueueing again is harmless, and ids in a lost reply become due again.
    """

    def __init__(
        self, client: Redis | RedisCluster | Transport, name: str, *, claim: float = CLAIM
    ) -> None:
        self.name = name
        self._claim = claim
        self._transport = transport_for(client)
        self._keys = (f"queue:{{{name}}}", f"queue:{{{name}}}:in-flight")

    def enqueue(self, ids: Iterable[str], delay: float, *, reschedule: bool = False) -> int:
        """Enqueue the ids, due in `delay` seconds; return how many were added or moved.

        An id that is already waiting or in flight keeps its time unless `reschedule` is set.
        """
        known = [str(one) for one in ids]
        if not known:
            return 0
        return int(self._run(ENQUEUE, _ms(delay), "1" if reschedule else "0", *known))

    def top(self, count: int = 1) -> list[Due]:
        """Read up to `count` due ids, the longest due first, without taking them."""
        flat = self._run(TOP, str(count))
        return [Due(text(one), _seconds(at)) for one, at in _groups(flat, 2)]

    def pop(self, count: int = 1) -> list[Due]:
        """Take up to `count` due ids, the longest due first; `acknowledge` them later."""
        flat = self._run(POP, str(count), _ms(self._claim))
        return [
            Due(text(one), _seconds(at), _seconds(until)) for one, at, until in _groups(flat, 3)
        ]

    def acknowledge(self, taken: Iterable[Due]) -> int:
        """Confirm that the work on popped ids is done; return how many were still claimed by us.

        After a claim has expired, another consumer may hold the id; its claim is not touched.
        """
        words = [word for one in taken for word in (one.id, _ms(one.claimed_until))]
        return int(self._run(ACKNOWLEDGE, *words)) if words else 0

    def dequeue(self, one: str, score: float) -> bool:
        """Remove a waiting id; return False if it is gone or its score has changed."""
        return bool(self._run(DEQUEUE, one, _ms(score)))

    def discard(self, ids: Iterable[str]) -> int:
        """Remove ids, waiting or in flight; return how many were in the queue.

        For ids that no longer need work.  A consumer that has already popped one still handles it.
        """
        known = [str(one) for one in ids]
        return int(self._run(DISCARD, *known)) if known else 0

    def __len__(self) -> int:
        """Return how many ids wait, due or not."""
        return int(self._run(SIZE)[0])

    def in_flight(self) -> int:
        """Return how many ids are popped and not acknowledged."""
        return int(self._run(SIZE)[1])

    def next_due(self) -> float | None:
        """Return when to pop next, in seconds of the server's clock; None if the queue is empty.

        That may be the expiry of another consumer's claim.
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
