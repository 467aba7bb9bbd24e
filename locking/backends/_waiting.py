"""What the backends share: how long an acquire may still wait, and what its handle is called."""

from __future__ import annotations

import os
import random
import socket
import uuid
from abc import abstractmethod
from math import inf

from locking.base import NO_HOOKS, SYSTEM_CLOCK, Clock, Hooks, Lease, Lock, LockTimeout


def default_owner() -> str:
    """Return a name that tells an operator where a holder runs: ``host:process:random``."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Deadline:
    """The time that one `acquire` has, and the pauses between its tries where it must poll."""

    def __init__(self, timeout: float | None, clock: Clock, first_pause: float = 0.005) -> None:
        """Start the time of an acquire that may take `timeout` seconds; None is for ever."""
        self._clock = clock
        self.began = clock.monotonic()
        self._end = inf if timeout is None else self.began + timeout
        self._pause = first_pause

    def left(self) -> float:
        """Seconds that are left, 0.0 at the end; `inf` if there is none."""
        return max(0.0, self._end - self._clock.monotonic())

    def elapsed(self) -> float:
        """Seconds since the acquire began."""
        return self._clock.monotonic() - self.began

    def pause(self, longest: float) -> None:
        """Sleep a jittered, growing time of at most `longest` seconds; the last one ends on time.

        Raises `LockTimeout` if no time is left, so that the last try is made *at* the end.  The
        jitter (between half and all) keeps clients that failed together from coming back
        together; see "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        left = self.left()
        if left <= 0:
            raise LockTimeout(f"not free within {self.elapsed():.3f} s")
        self._clock.sleep(min(left, random.uniform(self._pause / 2, self._pause)))
        self._pause = min(longest, self._pause * 2)


class WaitingLock(Lock):
    """A `Lock` whose `acquire` is measured; a backend implements `_acquire`."""

    def __init__(
        self,
        name: str,
        *,
        owner: str | None = None,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make a handle of the lock `name`; `owner` is what others see while it holds the lock."""
        self.name = name
        self.owner_name = owner or default_owner()
        self.hooks = hooks
        self.clock = clock

    def acquire(self, timeout: float | None = None) -> Lease:
        """See `Lock.acquire`."""
        deadline = Deadline(timeout, self.clock)
        acquired = False
        try:
            lease = self._acquire(deadline)
            acquired = True
            return lease
        finally:
            self.hooks.waited(self.name, deadline.elapsed(), acquired)

    @abstractmethod
    def _acquire(self, deadline: Deadline) -> Lease:
        """Wait for as long as `deadline` allows; see `Lock.acquire` for what is raised."""
