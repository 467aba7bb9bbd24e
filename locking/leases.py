"""Leases: what a client that got a lock holds, and for how long."""

from __future__ import annotations

import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Self

from locking.terms import (
    MAX_LEASE,
    NO_HOOKS,
    SYSTEM_CLOCK,
    Clock,
    Hooks,
    LockError,
    LockLost,
    LockUnsupported,
    lease_length,
)

if TYPE_CHECKING:
    from locking.base import Lock


def nowhere() -> None:
    """Return no home: no handle keeps the lease."""


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
        "__weakref__", "_deadline", "_granted_at", "_guard", "_handed_on", "_home", "_lost_reason",
        "_over", "_released", "_releasing", "clock", "hooks", "name", "token",
    )  # fmt: skip

    longest: ClassVar[float] = MAX_LEASE
    """The longest lease in seconds that the server keeps."""

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
        self._releasing = False
        self._handed_on = False
        self._lost_reason = ""
        self._over: threading.Event | None = None
        self._guard = threading.Lock()
        self._home: Callable[[], list[Any] | None] = nowhere  # until its handle has recorded it

    def __del__(self) -> None:
        if self._home is nowhere or self._releasing or self._handed_on or self._lost_reason:
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
        if self._handed_on:
            state = "handed on"
        elif self._is_lost():
            state = f"lost: {self._lost_reason}"
        elif self._released:
            state = "released"
        else:
            state = f"held for {self.remaining():.1f} s"
        return f"<{kind} of {self.name!r}{token}, {state}>"

    @property
    def id(self) -> str:
        """The text with which `Lease.resume` takes this lease over, in any process."""
        raise LockUnsupported(f"a {type(self).__name__} cannot be resumed elsewhere")

    def hand_on(self) -> str:
        """Give the lease up to whoever resumes it by the returned id; send nothing.

        It is no longer renewed, so it must be resumed before it ends; `release` does nothing.
        """
        ident = self.id
        self.check()
        self._handed_on = True
        self._end()
        return ident

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
            how = "handed on" if self._handed_on else "already released"
            raise LockLost(f"the lease of {self.name!r} was {how}")

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

    def begin_release(self) -> None:
        """Accept from now on that the server no longer knows the lease; call before asking it."""
        self._is_lost()  # records an expiry before the server is asked
        self._releasing = True

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

    def _extension(self, seconds: float) -> float:
        """Return for how long to extend the lease; raises ValueError for a senseless length."""
        return lease_length(seconds, self.longest)

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
        self._leave_home()

    def _leave_home(self) -> None:
        """Let the handle no longer keep the lease alive."""
        home = self._home()
        if home is not None:
            with suppress(ValueError):  # another acquire has found it expired and removed it
                home.remove(self)

    def _note_release(self, ours: bool) -> None:
        if not ours:
            self.mark_lost("the server no longer knows it")
        self._end()
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

        A lease that is renewed keeps this length from then on; `max_hold` still ends it.  Raises
        `LockLost` if another client may hold the lock, `LockUnavailable` if the server does not
        answer (the earlier of the two expiries then applies), `LockUnsupported` if a lease does not
        expire, ValueError for less than 1 ms and for more than the server keeps; the lease is then
        as before.
        """
        self.check()
        seconds = self._extension(seconds)
        before, deadline = self._deadline, self.clock.monotonic() + seconds
        self._deadline = min(before, deadline)  # the server may shorten it before we know
        try:
            self._note_extension(self._extend(seconds), deadline)
        except LockUnsupported:
            self._deadline = before
            raise

    def release(self) -> None:
        """Release the lock; do nothing if it is already released.

        Raises `LockLost` if the lease ended before, `LockUnavailable` if the server does not
        answer; call `release` again in that case.
        """
        if self._released:
            return
        self.begin_release()
        self._note_release(self._release())

    @abstractmethod
    def _release(self) -> bool:
        """Release on the server; return False if the lease was lost.  Must be repeatable."""

    @abstractmethod
    def _extend(self, seconds: float) -> bool:
        """Ask the server to expire the lease `seconds` from now; return False if it was lost."""

    @staticmethod
    def resume(lock: Lock, ident: str) -> Lease:
        """Take over the lease whose `id` is `ident`, with its token, for as long as `lock`'s.

        Whoever held it has lost it from then on, so that one id never admits two.  Raises
        `LockLost` if it has ended or was resumed before, `LockUnavailable`, `LockUnsupported`, and
        ValueError if it is not the id of a lease of this lock.
        """
        return lock.resume(ident)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.release()
        except LockError as problem:
            if error is None:
                raise
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class AsyncBlock(ABC):
    """The `async with` of an asyncio lease, which ends as the block of a `Lease` does."""

    __slots__ = ()

    @abstractmethod
    async def release(self) -> None:
        """See `Lease.release`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except LockError as problem:
            if error is None:
                raise
            error.add_note(f"and then {type(problem).__name__}: {problem}")
