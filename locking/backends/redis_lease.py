"""What becomes of a Redis lease: counted, renewed, lost or released; without any input or output.

The blocking lease and the asyncio lease ask the server each in their own way, and both leave it
to this state what to ask and what the answers mean.
"""

from __future__ import annotations

from math import inf
from typing import NoReturn

from redis.exceptions import RedisError

from locking.backends.redis_protocol import TOKENS, Grant
from locking.base import Clock, Hooks, LeaseState, LockError, LockUnavailable
from locking.renewal import Renewal


class RedisLeaseState(LeaseState):
    """A lease of one acquisition, which calls itself `holder` on the server."""

    __slots__ = (
        "_count",
        "_lease",
        "_max_until",
        "_process",
        "_releasing",
        "holder",
        "release_sent",
    )

    def __init__(self, name: str, holder: str, lease: float, *, clock: Clock, hooks: Hooks) -> None:
        super().__init__(name, clock=clock, hooks=hooks)
        self.holder = holder
        self.release_sent = False
        """Whether a release may have been carried out without our having heard of it."""
        self._lease = lease
        self._process = TOKENS.process
        self._count = 1
        self._max_until = inf
        self._releasing = False

    def begin(self, grant: Grant, max_hold: float | None) -> None:
        """Start the lease: the lock has been granted."""
        self.token = grant.fence
        self._granted_at = self.clock.monotonic()
        self._deadline = grant.since + self._lease
        if max_hold is not None:
            self._max_until = self._granted_at + max_hold

    # -- reentrancy: the server knows nothing of it

    def count_reentry(self) -> bool:
        """Count one more acquire; False if there is no lease any more to share."""
        if self._released or self._is_lost():
            return False
        self._count += 1
        return True

    def count_release(self) -> bool:
        """Count one release; whether it is the last."""
        if self._released or self._count == 1:
            return True
        self._count -= 1
        return False

    # -- renewal

    def renewal_seconds(self, now: float) -> float:
        """For how many seconds from now the lease is to be renewed; none if not at all."""
        if self.token is None or self._is_lost():
            return 0.0
        return min(self._lease, self._max_until - now)

    def skip_renewal(self, now: float) -> tuple[Renewal, float]:
        """Say why nothing was sent, and when to look again."""
        if self.token is None:
            return Renewal.HELD, now + self._lease / 3  # still waiting in line
        if self._is_lost():
            return Renewal.LOST, inf
        return Renewal.HELD, self._deadline  # to note the loss at its time

    def apply_renewal(self, answer: int, sent_at: float, seconds: float) -> tuple[Renewal, float]:
        """Take the server's answer to a renewal that was sent at that time."""
        if answer == 0:
            # Unless it was our own release that the server has carried out first.
            if not self._releasing:
                self.mark_lost("the server no longer knows it")
            return Renewal.LOST, inf
        self._deadline = max(self._deadline, sent_at + seconds)
        return (Renewal.RENEWED if answer == 1 else Renewal.HELD), sent_at + self._lease / 3

    def note_failed_renewal(self, error: LockError, sent_at: float) -> tuple[Renewal, float]:
        """Take note that a renewal brought no answer, and try again soon."""
        self.hooks.renewal_failed(self.name, error)
        return Renewal.UNKNOWN, min(sent_at + self._lease / 9, self._deadline)

    # -- the end

    def is_inherited(self) -> bool:
        """Whether this is a forked child's copy of its parent's lease."""
        return self._process is not TOKENS.process

    def begin_release(self) -> None:
        """Expect "not yours" of a renewal that is on its way; call before the release is sent."""
        self._releasing = True

    def was_held(self, answer: int) -> bool:
        """Whether the server's answer to a release means that the lock was ours until then."""
        return answer == 1 or (answer == 2 and self.release_sent)

    def _is_lost(self) -> bool:
        if self.is_inherited():
            self.mark_lost("it belongs to the parent of this forked process")
        return super()._is_lost()


def unavailable(name: str, error: RedisError) -> NoReturn:
    """Say that the server did not do what it was asked to."""
    raise LockUnavailable(f"no use of the server for lock {name!r}: {error}") from error


def ms(seconds: float) -> str:
    """Seconds as the scripts take them."""
    return str(max(1, round(seconds * 1000)))


def text(value: bytes | str) -> str:
    """A reply as text, whether or not the client decodes replies."""
    return value.decode() if isinstance(value, bytes) else value
