"""The contract that every lock of this package keeps, and the ways in which it can fail.

A lock must let exactly one client in, let go when its holder crashes, and tell the waiting
ones that it is free.  What a client gets is a *lease*: a lock with an end.  No lease protects
against a holder that is paused past that end and does not know it, so whatever the lock guards
should also check the lease's fencing token (Martin Kleppmann, "How to do distributed locking",
2016).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import ClassVar, Literal, Self


class LockError(Exception):
    """Base of everything that can go wrong with a lock."""


class LockTimeout(LockError):
    """The lock was not free within the time that the caller would wait."""


class LockLost(LockError):
    """The lease ended, or was taken away, before it was released: others may be inside."""


class LockUnavailable(LockError):
    """The lock's server cannot be reached or does not answer; the cause is chained.

    Raised by `Lock.acquire`, it means that the caller holds nothing it could rely on.  Raised by
    `Lease.release`, the lease may or may not be gone on the server; releasing again is allowed.
    """


class LockUnsupported(LockError):
    """The backend has no such operation; its `Capabilities` say so beforehand."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend promises beyond mutual exclusion; the conformance suite checks each.

    `fence`: leases carry a token that grows with every grant.
    `fair`: waiters enter in the order in which they came.
    `renewal`: a living holder's lease does not end by itself.
    `extend`: `Lease.extend` works.
    `reentrant`: a handle that holds the lock can acquire it again.
    `survives_server_restart`: what was held before the server was killed and restarted *without*
    its data is still exclusively held after it.
    `crash_release`: what frees the lock of a crashed holder: its `"lease"` runs out, or the
    server sees its `"connection"` (or session) end, which is sooner.
    `counts_waiters`, `knows_owner`, `force_release`: the `Lock` method of that kind works;
    otherwise it raises `LockUnsupported`.
    """

    fence: bool = False
    fair: bool = False
    renewal: bool = False
    extend: bool = True
    reentrant: bool = False
    survives_server_restart: bool = False
    crash_release: Literal["lease", "connection"] = "lease"
    counts_waiters: bool = False
    knows_owner: bool = True
    force_release: bool = True


class Hooks:
    """What happens to locks, for metrics: override what you want to know; must not block.

    `name` is the lock's name.  Hooks run in the thread in which the thing happened, which for
    `renewal_failed` and `lost` may be the renewal thread.
    """

    def waited(self, name: str, seconds: float, acquired: bool) -> None:
        """An `acquire` is over after `seconds`, with the lock or without."""

    def held(self, name: str, seconds: float) -> None:
        """A lease was released, or found lost at its release, `seconds` after it was granted."""

    def renewal_failed(self, name: str, error: Exception) -> None:
        """A renewal got no answer; the lease stands until its own end."""

    def lost(self, name: str, reason: str) -> None:
        """A lease ended before its release.  Called once a lease."""


NO_HOOKS = Hooks()


def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # looked up at each call, so that gevent may patch it after this import


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a lock takes its time from: the seam at which a simulator puts virtual time."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds from an arbitrary start; never steps back, unlike the time of day."""
    sleep: Callable[[float], None] = _sleep


SYSTEM_CLOCK = Clock()


class LostEvent:
    """The event of a lease's loss; reads like a `threading.Event` that is only ever set.

    It also counts as set from the lease's own end on, without any thread having to notice.
    """

    # A view made on demand, so that lease and event are no reference cycle in a hot path.
    __slots__ = ("_lease",)

    def __init__(self, lease: LeaseState) -> None:
        self._lease = lease

    @property
    def reason(self) -> str:
        """Why the lease is lost; empty if it is not."""
        return self._lease._lost_reason

    def is_set(self) -> bool:
        """Whether the lease is lost.  A lease that was released in time is not."""
        return self._lease._is_lost()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the lease is lost or released, at most `timeout` seconds; whether lost."""
        lease, clock = self._lease, self._lease.clock
        give_up = inf if timeout is None else clock.monotonic() + timeout
        over = lease._over_event()
        while not self.is_set() and not lease.released:
            left = min(give_up - clock.monotonic(), lease.remaining())
            if clock.monotonic() >= give_up:
                return False
            # An extension meanwhile just makes another round.
            over.wait(None if left == inf else left)
        return self.is_set()


class LeaseState:
    """What is known about a lease without asking its server: shared by blocking and asyncio."""

    __slots__ = (
        "__weakref__", "_deadline", "_granted_at", "_guard", "_lost_reason", "_over", "_released",
        "clock", "hooks", "name", "token",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        token: int | None = None,
        seconds: float = inf,
        sent_at: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        """Describe a lease of the lock `name` that the server has just granted.

        `token` is the fencing token; `seconds` the length of the lease, `inf` where it ends with
        a connection; `sent_at` the monotonic time at which the granting command was *sent*:
        counted from there, the lease ends here no later than on the server.
        """
        self.name = name
        self.token = token
        self.clock = clock
        self.hooks = hooks
        self._granted_at = clock.monotonic()
        self._deadline = (self._granted_at if sent_at is None else sent_at) + seconds
        self._released = False
        self._lost_reason = ""
        self._over: threading.Event | None = None
        self._guard = threading.Lock()

    @property
    def lost(self) -> LostEvent:
        """The event that is set once the lease is lost."""
        return LostEvent(self)

    @property
    def released(self) -> bool:
        """Whether `release` has succeeded, or found that there was nothing left to release."""
        return self._released

    def remaining(self) -> float:
        """Seconds for which the lock is still surely ours; 0.0 if it is not ours."""
        if self._released or self._is_lost():
            return 0.0
        return max(0.0, self._deadline - self.clock.monotonic())

    def check(self) -> None:
        """Raise `LockLost` unless the lease still stands, as far as is known here."""
        if self._is_lost():
            raise LockLost(f"the lease of {self.name!r} is lost: {self._lost_reason}")
        if self._released:
            raise LockLost(f"the lease of {self.name!r} was released")

    def mark_lost(self, reason: str) -> None:
        """Declare the lease lost, once; for backends and their renewal."""
        with self._guard:
            if self._released or self._lost_reason:
                return
            self._lost_reason = reason
            over = self._over
        if over is not None:
            over.set()
        self.hooks.lost(self.name, reason)

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

    def _note_release(self, ours: bool) -> None:
        if not ours:
            self.mark_lost("the server no longer knows it")
        with self._guard:
            self._released = True
        if self._over is not None:
            self._over.set()
        self.hooks.held(self.name, self.clock.monotonic() - self._granted_at)
        if self._lost_reason:
            raise LockLost(f"the lease of {self.name!r} is lost: {self._lost_reason}")


class Lease(LeaseState, ABC):
    """A granted lock: proof, for `remaining()` seconds, that nobody else is inside.

    A context manager that releases at the end of the block.  Leaving the block of a lost lease
    raises `LockLost`, unless the body raised already: then its exception goes on, with a note.

    A backend implements `_release` and `_extend`; states and errors are kept here.
    """

    __slots__ = ()

    def extend(self, seconds: float) -> None:
        """Let the lease end `seconds` from now.  Never re-creates a lease that is lost.

        Raises `LockLost` if it is no longer ours, `LockUnavailable` if that cannot be known
        (then the old end stands), `LockUnsupported` where a lease has no end to move.
        """
        self.check()
        sent_at = self.clock.monotonic()
        self._note_extension(self._extend(seconds), sent_at + seconds)

    def release(self) -> None:
        """Let the next client in.  Does nothing if already released.

        Raises `LockLost` if the lease ended before, `LockUnavailable` if the server did not
        answer; the lease is not forgotten then and `release` may be called again.
        """
        if self._released:
            return
        self._is_lost()  # notes an end that has passed, before the server is asked
        self._note_release(self._release())

    @abstractmethod
    def _release(self) -> bool:
        """Give the lock back; False if it was not ours any more.  Must be repeatable."""

    @abstractmethod
    def _extend(self, seconds: float) -> bool:
        """Ask the server for `seconds` more from now; False if it was not ours any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except LockError as problem:
            if error is None:
                raise
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class Lock(ABC):
    """A named lock; cheap to construct, nothing is sent before `acquire`.

    Every handle of the same name on the same server excludes every other one, in any process.

    >>> with lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     sell(fence=lease.token)
    """

    capabilities: ClassVar[Capabilities]
    name: str

    @abstractmethod
    def acquire(self, timeout: float | None = None) -> Lease:
        """Wait for the lock for at most `timeout` seconds; None waits for ever, 0 tries once.

        Raises `LockTimeout` if it was not free in time, `LockUnavailable` if the server does not
        answer.  However it ends without a lease, nothing of the attempt stays on the server
        longer than a lease.
        """

    def owner(self) -> str | None:
        """Who holds the lock now, as named by its handle; None if it is free."""
        raise LockUnsupported(f"{type(self).__name__} cannot tell who holds a lock")

    def waiters(self) -> int:
        """How many clients wait for the lock now."""
        raise LockUnsupported(f"{type(self).__name__} cannot count who waits")

    def force_release(self, reason: str) -> bool:
        """Take the lock away from whoever holds it, for operators; whether somebody held it.

        The evicted holder learns of it at its next renewal, extension or release.  `reason` is
        logged.
        """
        raise LockUnsupported(f"{type(self).__name__} cannot take a lock away")
