"""The contract of every lock in this package, and its errors.

A lock must admit exactly one client, become free when its holder crashes, and notify the waiters
when it is free.  A client gets a *lease*: a lock that expires.  No lease protects against a holder
that is paused past its expiry without noticing, so the guarded resource should also check the
lease's fencing token (Martin Kleppmann, "How to do distributed locking", 2016).
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
    """Base class of all lock errors."""


class LockTimeout(LockError):
    """The lock was not free within the caller's timeout."""


class LockLost(LockError):
    """The lease expired or was revoked before its release; another client may hold the lock."""


class LockUnavailable(LockError):
    """The lock's server cannot be reached or does not answer; the cause is chained.

    From `Lock.acquire`: the caller holds no lock.  From `Lease.release`: the server may or may not
    have released the lease; call `release` again.
    """


class LockUnsupported(LockError):
    """The backend does not support the operation; see its `Capabilities`."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The guarantees of a backend beyond mutual exclusion; the conformance suite checks each.

    `fence`: leases carry a token that grows with every grant.
    `fair`: waiters get the lock in order of arrival.
    `renewal`: the lease of a live holder does not expire.
    `extend`: `Lease.extend` works.
    `reentrant`: a handle that holds the lock can acquire it again.
    `survives_server_restart`: a held lock is still held after the server was killed and restarted
    *without* its data.
    `crash_release`: what frees the lock of a crashed holder: its `"lease"` expires, or the server
    sees its `"connection"` (or session) end, which is sooner.
    `counts_waiters`, `knows_owner`, `force_release`: the corresponding `Lock` method works;
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
    """Callbacks for metrics; override the ones you need.  A hook must not block.

    `name` is the lock's name.  A hook runs in the thread of the event; for `renewal_failed` and
    `lost` that may be the renewal thread.
    """

    def waited(self, name: str, seconds: float, acquired: bool) -> None:
        """Record that an `acquire` ended after `seconds`; `acquired` tells whether it succeeded."""

    def held(self, name: str, seconds: float) -> None:
        """Record that a lease was released, or found lost then, `seconds` after its grant."""

    def renewal_failed(self, name: str, error: Exception) -> None:
        """Record that a renewal got no answer; the lease stays valid until it expires."""

    def lost(self, name: str, reason: str) -> None:
        """Record that a lease ended before its release; called once per lease."""


NO_HOOKS = Hooks()


def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # resolved at each call, so that gevent can patch it after this import


@dataclass(frozen=True, slots=True)
class Clock:
    """A lock's source of time; the simulator replaces it with virtual time."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds from an arbitrary start; never steps back, unlike the wall clock."""
    sleep: Callable[[float], None] = _sleep


SYSTEM_CLOCK = Clock()


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


class LeaseState:
    """The client-side state of a lease; the base of the blocking and the asyncio leases."""

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
        """Create the state of a lease of the lock `name` that the server has just granted.

        `token` is the fencing token; `seconds` the length of the lease, `inf` if it ends with a
        connection; `sent_at` the monotonic time at which the granting command was *sent*.
        Counted from then, the lease expires here no later than on the server.
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
    """A granted lock: for `remaining()` seconds, no other client holds it.

    A context manager that releases the lock at the end of the block.  Leaving the block of a lost
    lease raises `LockLost`; if the body raised, its exception propagates instead, with a note.

    A backend implements `_release` and `_extend`; this class keeps the state and raises the errors.
    """

    __slots__ = ()

    def extend(self, seconds: float) -> None:
        """Set the lease to expire `seconds` from now; never re-create a lost lease.

        Raises `LockLost` if another client may hold the lock, `LockUnavailable` if the server does
        not answer (the old expiry then applies), `LockUnsupported` if a lease does not expire.
        """
        self.check()
        sent_at = self.clock.monotonic()
        self._note_extension(self._extend(seconds), sent_at + seconds)

    def release(self) -> None:
        """Release the lock; do nothing if it is already released.

        Raises `LockLost` if the lease ended before, `LockUnavailable` if the server does not
        answer; call `release` again in that case.
        """
        if self._released:
            return
        self._is_lost()  # records an expiry before the server is asked
        self._note_release(self._release())

    @abstractmethod
    def _release(self) -> bool:
        """Release on the server; return False if the lease was lost.  Must be repeatable."""

    @abstractmethod
    def _extend(self, seconds: float) -> bool:
        """Ask the server to expire the lease `seconds` from now; return False if it was lost."""

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
    """A handle of a named lock; cheap to construct, sends nothing before `acquire`.

    All handles of one name on one server exclude each other, in any process.

    >>> with lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     sell(fence=lease.token)
    """

    capabilities: ClassVar[Capabilities]
    name: str

    @abstractmethod
    def acquire(self, timeout: float | None = None) -> Lease:
        """Wait for the lock for at most `timeout` seconds; None waits without limit, 0 tries once.

        Raises `LockTimeout` if it was not free in time, `LockUnavailable` if the server does not
        answer.  A failed attempt leaves nothing on the server for longer than a lease.
        """

    def owner(self) -> str | None:
        """Return the name of the current holder's handle; None if the lock is free."""
        raise LockUnsupported(f"{type(self).__name__} cannot name the holder of a lock")

    def waiters(self) -> int:
        """Return how many clients wait for the lock."""
        raise LockUnsupported(f"{type(self).__name__} cannot count the waiters")

    def force_release(self, reason: str) -> bool:
        """Revoke the lock from its holder, for operators; return whether it was held.

        The holder notices at its next renewal, extension or release.  `reason` is logged.
        """
        raise LockUnsupported(f"{type(self).__name__} cannot revoke a lock")
