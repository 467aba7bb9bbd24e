"""The state of a Redis lease, without input or output.

It decides what to ask the server and what the answers mean; the blocking and the asyncio leases
only send and receive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn

from redis.exceptions import RedisError

from locking.backends.redis_protocol import TOKENS, Grant, Keys
from locking.base import LeaseState, LockError, LockUnavailable
from locking.renewal import Renewal
from locking.terms import MIN_LEASE

if TYPE_CHECKING:
    from locking.backends.redis_handle import RedisHandle  # which imports this module


class RedisLeaseState(LeaseState):
    """The state of one acquisition's lease; `holder` is its name on the server."""

    __slots__ = (
        "_count",
        "_extensions",
        "_keys",
        "_max_until",
        "_process",
        "_remote",
        "_seconds",
        "holder",
        "owner",
        "release_sent",
    )

    def __init__(self, lock: RedisHandle, holder: str, owner: object) -> None:
        """Create the state of an acquisition of `lock` by `owner`, a thread or a task."""
        super().__init__(lock.name, clock=lock.remote.clock, hooks=lock.hooks)
        self._remote: Any = lock.remote
        self.holder = holder
        self.owner: Callable[[], Any] = weakref.ref(owner)
        self.release_sent = False
        """Whether the server may have executed a release whose answer we did not get."""
        self._seconds = lock.lease_seconds
        self._keys = lock.keys
        self._extensions = 0
        self._process = TOKENS.process
        self._count = 1
        self._max_until = inf

    def begin(self, grant: Grant, max_hold: float | None) -> None:
        """Start the lease after its grant."""
        self.token = grant.fence
        self._granted_at = self.clock.monotonic()
        self._deadline = grant.since + self._seconds
        if max_hold is not None:
            self._max_until = self._granted_at + max_hold

    def is_of(self, keys: Keys) -> bool:
        """Return whether it is a lease of the lock with these keys."""
        return self._keys is keys or self._keys.all == keys.all

    def never_ends(self) -> bool:
        """Return whether the lease is renewed for as long as its owner lives."""
        return bool(self._remote.renewed) and self._max_until == inf

    # -- reentrancy, counted on the client only

    def count_reentry(self) -> bool:
        """Count one more acquire; return False if the lease has ended."""
        if self._released or self._is_lost():
            return False
        self._count += 1
        return True

    def count_release(self) -> bool:
        """Count one release; return whether it is the last."""
        if self._released or self._count == 1:
            return True
        self._count -= 1
        return False

    # -- renewal

    def renewal_seconds(self, now: float) -> float:
        """Return for how many seconds from now to renew the lease; 0.0 or less: do not renew."""
        if self.token is None or self._is_lost():
            return 0.0
        return min(self._seconds, self._max_until - now)

    def skip_renewal(self, now: float) -> tuple[Renewal, float]:
        """Return why no renewal was sent, and when to check again."""
        if self.token is None:
            return Renewal.HELD, now + self._seconds / 3  # still waiting in the queue
        if self._is_lost():
            return Renewal.LOST, inf
        return Renewal.HELD, self._deadline  # to record the loss on time

    def apply_renewal(
        self, answer: int, sent_at: float, seconds: float, extensions: int
    ) -> tuple[Renewal, float]:
        """Apply the server's answer to a renewal sent at `sent_at` for `seconds`.

        `extensions` is what `extensions` was before it was sent.
        """
        if answer == 0:
            # Our own release may have overtaken the renewal; then the lease is not lost.
            if not self._releasing:
                self.mark_lost("the server no longer knows it")
            return Renewal.LOST, inf
        # The server may set a shorter expiry after this renewal; `extend` knows that one.
        if extensions == self._extensions and extensions % 2 == 0:
            self._deadline = max(self._deadline, sent_at + seconds)
        return (Renewal.RENEWED if answer == 1 else Renewal.HELD), sent_at + self._seconds / 3

    def note_failed_renewal(self, error: LockError, sent_at: float) -> tuple[Renewal, float]:
        """Record that a renewal got no answer; return when to try again."""
        self.hooks.renewal_failed(self.name, error)
        return Renewal.UNKNOWN, min(sent_at + self._seconds / 9, self._deadline)

    # -- extension

    @property
    def extensions(self) -> int:
        """How often an `extend` has begun or ended: odd while one is under way."""
        return self._extensions

    def _extension(self, seconds: float) -> float:
        left = self._max_until - self.clock.monotonic()
        return min(super()._extension(seconds), max(left, MIN_LEASE))

    def begin_extension(self) -> None:
        """Count an extension; call before sending it, and `end_extension` after it."""
        self._extensions += 1

    def end_extension(self) -> None:
        """Count the end of an extension, whatever came of it."""
        self._extensions += 1

    # -- release

    def is_inherited(self) -> bool:
        """Return whether this is a forked child's copy of its parent's lease."""
        return self._process is not TOKENS.process

    def was_held(self, answer: int, repeated: bool) -> bool:
        """Return whether a release's answer means that we held the lock until then.

        `repeated`: an earlier try may have released it, and its answer was lost or interrupted.
        """
        return answer == 1 or (answer == 2 and repeated)

    def _is_lost(self) -> bool:
        if self.is_inherited():
            self.mark_lost("it belongs to the parent of this forked process")
        return super()._is_lost()


def unavailable(name: str, error: RedisError) -> NoReturn:
    """Raise `LockUnavailable` for an error of the server or the connection.

    Raises LockError for a semaphore with another number of permits, and for a key of the lock that
    holds something else.
    """
    if str(error).startswith("PERMITS"):
        raise LockError(f"semaphore {name!r}: {error}") from error
    if "WRONGTYPE" in str(error):
        raise LockError(f"a key of lock {name!r} holds something else: {error}") from error
    raise LockUnavailable(f"the server of lock {name!r} did not answer: {error}") from error


def ms(seconds: float) -> str:
    """Return seconds as the milliseconds that the scripts take, at least one."""
    return str(max(1, round(seconds * 1000)))


def text(value: bytes | str) -> str:
    """Return a reply as text, whether or not the client decodes replies."""
    return value.decode() if isinstance(value, bytes) else value
