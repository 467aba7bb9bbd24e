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
from numbers import Real
from typing import Any, ClassVar

from locking.backends.redis import BlockingRemote
from locking.backends.redis_async import AsyncRemote
from locking.backends.redis_lease import Remote
from locking.backends.redis_protocol import Script, keys_of, text
from locking.leases import checked, lease_length

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


class _Queue:
    """A queue of unique ids, ordered by the time at which they are due.

    `claim` is in seconds.  A command without an answer raises `LockUnavailable` and may have been
    executed: enqueueing again is harmless, and ids in a lost reply become due again.
    """

    remote_class: ClassVar[type[Remote]]

    def __init__(self, client: Any, name: str, *, claim: float = CLAIM) -> None:
        self.name = name
        waiting = keys_of("queue", name)[0]
        self._remote = self.remote_class(client, name, (waiting, f"{waiting}:in-flight"))
        self._claim = _ms(lease_length(claim, what="claim"))

    def _run(self, script: Script, read: Callable[[Any], Any], *args: str) -> Any:
        return self._remote.read(script, read, *args, tries=1)

    def enqueue(self, ids: Iterable[str], delay: float, *, reschedule: bool = False) -> Any:
        """Enqueue the ids, due in `delay` seconds; return how many were added or moved.

        An id that is already waiting or in flight keeps its time unless `reschedule` is set.
        """
        due = _ms(checked("delay", delay, Real, "a number of seconds"))
        return self._run(ENQUEUE, int, due, "1" if reschedule else "0", *_several(ids))

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
        claims = [word for one in taken for word in (one.id, _ms(one.claimed_until))]
        return self._run(ACKNOWLEDGE, int, *claims)

    def dequeue(self, one: str, score: float) -> Any:
        """Remove a waiting id; return False if it is gone or its score has changed."""
        return self._run(DEQUEUE, bool, one, _ms(score))

    def discard(self, ids: Iterable[str]) -> Any:
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


class DelayQueue(_Queue):
    """A queue of ids; `client` is a blocking client of redis-py or valkey-py, or a URL."""

    remote_class = BlockingRemote

    def __len__(self) -> int:
        """Return how many ids wait, due or not."""
        return int(self.waiting())


class AsyncDelayQueue(_Queue):
    """The same queue for asyncio: each method returns what to await."""

    remote_class = AsyncRemote


def _several(ids: Iterable[str]) -> Iterable[str]:
    if isinstance(ids, str):  # each of its letters would be an id
        raise TypeError(f"ids are several, such as [{ids!r}], not {ids!r}")
    return map(str, ids)


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _seconds(milliseconds: bytes | str) -> float:
    return float(milliseconds) / 1000


def _dues(flat: list[Any], size: int) -> list[Due]:
    groups = zip(*[iter(flat)] * size, strict=True)
    return [Due(text(one), *map(_seconds, times)) for one, *times in groups]
