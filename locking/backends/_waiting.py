"""Shared parts of the backends: the deadline of an acquire and the measured `acquire`."""

from __future__ import annotations

import os
import random
import socket
import threading
import uuid
from abc import abstractmethod
from math import inf

from locking.base import Lease, Lock
from locking.leases import Held, time_limit
from locking.terms import NO_HOOKS, SYSTEM_CLOCK, Clock, Hooks, LockTimeout


def default_owner() -> str:
    """Return a name that shows operators where a holder runs: `host:process:random`."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Deadline:
    """The deadline of one `acquire`, and the pauses between its tries if it must poll."""

    def __init__(self, timeout: float | None, clock: Clock, first_pause: float = 0.005) -> None:
        """Start the clock of an acquire that may take `timeout` seconds; None: no limit."""
        self._clock = clock
        self.began = clock.monotonic()
        self._end = inf if timeout is None else self.began + timeout
        self._pause = first_pause

    def left(self) -> float:
        """Return the seconds left, 0.0 after the deadline; `inf` if there is none."""
        return max(0.0, self._end - self._clock.monotonic())

    def elapsed(self) -> float:
        """Return the seconds since the acquire began."""
        return self._clock.monotonic() - self.began

    def pause(self, longest: float) -> None:
        """Sleep for `next_pause`."""
        self._clock.sleep(self.next_pause(longest))

    def next_pause(self, longest: float) -> float:
        """Return a jittered, growing time of at most `longest` seconds, not past the deadline.

        Raises `LockTimeout` if no time is left, so the last try happens *at* the deadline.  The
        jitter (half to all of the pause) keeps clients that failed together from retrying
        together; see "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        left = self.left()
        if left <= 0:
            raise LockTimeout(f"not free within {self.elapsed():.3f} s")
        pause = min(left, random.uniform(self._pause / 2, self._pause))
        self._pause = min(longest, self._pause * 2)
        return pause


class WaitingLock(Lock):
    """A `Lock` that reports the time of each `acquire`; a backend implements `_acquire`."""

    def __init__(
        self,
        name: str,
        *,
        owner: str | None = None,
        timeout: float | None = None,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make a handle of the lock `name`; `owner` is the name that others see for its holder.

        `timeout` is that of every acquire without one, in seconds.
        """
        self.name = name
        self.timeout = time_limit(timeout, True)
        self.owner_name = owner or default_owner()
        self.hooks = hooks
        self.clock = clock
        self._held = Held()

    def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> Lease:
        """See `Lock.acquire`."""
        deadline = Deadline(time_limit(timeout, blocking, self.timeout), self.clock)
        acquired, thread = False, threading.current_thread()
        try:
            lease = self._acquire(deadline)
            acquired = True
            self._held.add(thread, lease)
            return lease
        except LockTimeout as error:
            raise LockTimeout(f"lock {self.name!r}: {error}") from error
        finally:
            if not acquired:
                self._held.failed(thread)
            self.hooks.waited(self.name, deadline.elapsed(), acquired)

    @abstractmethod
    def _acquire(self, deadline: Deadline) -> Lease:
        """Wait until `deadline`; raise as `Lock.acquire` does."""
