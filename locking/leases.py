"""The client-side state of a lease, and the leases that a handle keeps."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from math import inf
from numbers import Real
from types import CodeType, FrameType
from typing import Any, TypeVar

from locking.terms import SYSTEM_CLOCK, Clock, LockLost

T = TypeVar("T")

MIN_LEASE = 0.001
"""Seconds; the servers count in milliseconds."""

MAX_LEASE = 10 * 366 * 86_400.0
"""Seconds: ten years.  Every server but memcached can keep a lease for that long."""


def checked(what: str, value: T, kind: type, wanted: str) -> T:
    """Return an argument; raise TypeError, which names it by `what`, if it is no `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} must be {wanted}, not {value!r}")
    return value


def lease_length(seconds: float, longest: float = MAX_LEASE, what: str = "lease") -> float:
    """Return the length of a lease; raise ValueError for one that a server cannot keep."""
    if not MIN_LEASE <= checked(what, seconds, Real, "a number of seconds") <= longest:  # also NaN
        raise ValueError(
            f"{what} must be above zero, at least 1 ms and at most {longest:.0f} s: {seconds} s"
        )
    return seconds


def time_limit(timeout: float | None, blocking: bool, usual: float | None = None) -> float | None:
    """Return the seconds for which an acquire may wait; None: no limit, 0: one try.

    `usual` is the limit without a time-out.  As in `threading.Lock.acquire`, the first argument may
    be `blocking`.  Raises ValueError for a negative time-out, and for a time-out of a call that
    must not block.
    """
    if isinstance(timeout, bool):
        timeout, blocking = None, timeout
    if not blocking:
        if timeout:
            raise ValueError("a call that does not block takes no timeout")
        return 0.0
    if timeout is None:
        return usual
    if not checked("timeout", timeout, Real, "a number of seconds or None") >= 0:  # also NaN
        raise ValueError(f"a timeout must not be negative: {timeout}; None waits without a limit")
    return timeout


class LostEvent:
    """The event that a lease was lost; works like a `threading.Event` that is never cleared.

    It counts as set as soon as the lease has expired, without a thread that observes the expiry.
    """

    # A view created on demand avoids a reference cycle between lease and event on a hot path.
    __slots__ = ("_lease",)

    def __init__(self, lease: LeaseState) -> None:
        self._lease = lease

    @property
    def reason(self) -> str:
        """The reason for the loss; empty if the lease is not lost."""
        return self._lease._lost_reason

    def is_set(self) -> bool:
        """Return whether the lease is lost; a lease that was released in time is not."""
        return self._lease._is_lost()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds until the lease is lost or released; return `is_set()`."""
        lease, clock = self._lease, self._lease.clock
        give_up = inf if timeout is None else clock.monotonic() + timeout
        over = lease._over_event()
        while not self.is_set() and not lease.released:
            left = min(give_up - clock.monotonic(), lease.remaining())
            if clock.monotonic() >= give_up:
                return False
            # If the lease is extended meanwhile, the loop waits again.
            over.wait(None if left == inf else left)
        return self.is_set()


def nobody() -> None:
    """Return no acquirer, or no handle's record, of a lease."""


def leave_home(lease: Any) -> None:
    """Let the handle of a lease no longer keep it alive."""
    home = lease._home()
    if home is not None:
        home.remove(lease)


class LeaseState:
    """The client-side state of a lease; the base of the blocking and the asyncio leases."""

    __slots__ = (
        "__weakref__", "_deadline", "_guard", "_home", "_lost_reason", "_over", "_released",
        "_releasing", "acquirer", "clock", "name", "token",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        token: int | None = None,
        seconds: float = inf,
        sent_at: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Create the state of a lease of the lock `name` that the server has just granted.

        `token` is the fencing token; `seconds` the length of the lease, `inf` if it ends with a
        connection; `sent_at` the monotonic time at which the granting command was *sent*.
        Counted from then, the lease expires here no later than on the server.
        """
        self.name = name
        self.token = token
        self.clock = clock
        self._deadline = (clock.monotonic() if sent_at is None else sent_at) + seconds
        self._released = self._releasing = False
        self._lost_reason = ""
        self._over: threading.Event | None = None
        self._guard = threading.Lock()
        self._home: Callable[[], Held | None] = nobody  # until its handle has recorded it
        self.acquirer: Callable[[], Any] = nobody

    def __del__(self) -> None:
        if self._releasing or self._home is nobody or self._lost_reason:
            return
        if not sys.is_finalizing():
            warnings.warn(
                f"the lease of lock {self.name!r} was dropped without a release; it is no longer "
                "renewed, and others wait until it ends: use `with` or call `release`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        kind, token = type(self).__name__, "" if self.token is None else f", token {self.token}"
        if self._is_lost():
            state = f"lost: {self._lost_reason}"
        elif self._released:
            state = "released"
        else:
            state = f"held for {self.remaining():.1f} s"
        return f"<{kind} of {self.name!r}{token}, {state}>"

    @property
    def lost(self) -> LostEvent:
        """The event of the lease's loss."""
        return LostEvent(self)

    @property
    def released(self) -> bool:
        """Whether `release` has succeeded, or found the lease already gone."""
        return self._released

    def remaining(self) -> float:
        """Return the seconds for which the lease is certainly valid; 0.0 if it is not."""
        if self._released or self._is_lost():
            return 0.0
        return max(0.0, self._deadline - self.clock.monotonic())

    def check(self) -> None:
        """Raise `LockLost` unless the lease is still valid, as far as this client knows."""
        if self._is_lost():
            raise LockLost(f"the lease of {self.name!r} is lost: {self._lost_reason}")
        if self._released:
            raise LockLost(f"the lease of {self.name!r} was already released")

    def mark_lost(self, reason: str) -> None:
        """Mark the lease as lost, once; for backends and their renewal."""
        with self._guard:
            if self._released or self._lost_reason:
                return
            self._lost_reason = reason
            over = self._over
        if over is not None:
            over.set()

    def _is_lost(self) -> bool:
        if not self._lost_reason and not self._released:
            if self.clock.monotonic() < self._deadline:
                return False
            self.mark_lost("the lease ran out")
        return bool(self._lost_reason)

    def _over_event(self) -> threading.Event:
        with self._guard:
            if self._over is None:
                self._over = threading.Event()
                if self._lost_reason or self._released:
                    self._over.set()
            return self._over

    def _note_extension(self, ours: bool, deadline: float) -> None:
        if ours:
            self._deadline = deadline
        else:
            self.mark_lost("the server no longer knows it")
        self.check()

    def _end(self) -> None:
        with self._guard:
            self._released = True
        if self._over is not None:
            self._over.set()
        leave_home(self)

    def _note_release(self, ours: bool) -> None:
        if not ours:
            self.mark_lost("the server no longer knows it")
        self._end()
        if self._lost_reason:
            raise LockLost(f"the lease of {self.name!r} is lost: {self._lost_reason}")


class Held:
    """The leases of a handle, by who acquired them and by `with` block.

    The handle keeps a lease alive, so that `handle.acquire()` followed by `handle.release()` works,
    for as long as the thread or task exists that acquired it.  The lease refers to the record
    weakly, so that all of them end when the program drops them.
    """

    __slots__ = ("__weakref__", "_blocks", "_in_vain", "_latest", "_leases", "_when_ended")

    def __init__(self) -> None:
        # list.append and list.remove are atomic, so no lock is needed.
        self._leases: list[Any] = []
        self._latest: Callable[[], Any] = nobody
        self._in_vain: weakref.WeakSet[Any] = weakref.WeakSet()
        self._blocks: list[tuple[int, CodeType, Any]] = []
        itself = weakref.ref(self)

        def forget(ended: Callable[[], Any]) -> None:
            held = itself()
            for lease in [] if held is None else list(held._leases):
                if lease.acquirer is ended:
                    leave_home(lease)

        self._when_ended = forget

    def add(self, caller: object | None, lease: Any) -> None:
        """Record a granted lease; a `caller` of None: a task that did nothing but acquire it."""
        for each in self._leases[:]:
            if each.remaining() <= 0:
                self.remove(each)
        if caller is not None:
            lease.acquirer = weakref.ref(caller, self._when_ended)
            self._in_vain.discard(caller)
        lease._home = weakref.ref(self)
        self._leases.append(lease)
        self._latest = weakref.ref(lease)

    def remove(self, lease: Any) -> None:
        """Keep the lease no longer."""
        with suppress(ValueError):  # another thread has removed it
            self._leases.remove(lease)

    def failed(self, caller: object) -> None:
        """Record that the caller asked and got nothing: it must not release another's lease."""
        self._in_vain.add(caller)

    def own(self, caller: object) -> Any:
        """Return the latest lease that the caller acquired and that is not released, or None."""
        found = None
        for lease in self._leases[::-1]:
            if lease.acquirer() is caller:
                return lease
            if found is None and lease.acquirer is nobody:
                found = lease
        return found

    def latest(self, caller: object) -> Any:
        """Return the caller's latest lease, or else the handle's, which it may have been handed."""
        own = self.own(caller)
        if own is None and caller not in self._in_vain:
            return self.live()
        return own

    def live(self) -> Any:
        """Return the handle's latest valid lease, whoever acquired it; None if there is none."""
        for lease in (self._latest(), *self._leases[::-1]):
            if lease is not None and lease.remaining() > 0:
                return lease
        return None

    def enter(self, frame: FrameType, lease: Any) -> Any:
        """Record that the frame's `with` block of the handle begins; return its lease."""
        self._blocks.append((id(frame), frame.f_code, lease))
        return lease

    def leave(self, frame: FrameType, caller: object) -> Any:
        """Return the lease of the innermost `with` block of the frame, which ends; None without it.

        A generator's frame may end its block in another thread than it began.  An `ExitStack` has
        another frame: then the block is the latest of the caller, or else the handle's oldest.
        """
        blocks = self._blocks[::-1]
        here = [each for each in blocks if each[:2] == (id(frame), frame.f_code)]
        found = here or [each for each in blocks if each[2].acquirer() is caller] or blocks[-1:]
        if not found:
            return None
        self._blocks.remove(found[0])
        return found[0][2]
