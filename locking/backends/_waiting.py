"""Shared parts of the backends: sockets, threads, deadlines and `acquire`."""

from __future__ import annotations

import hashlib
import os
import random
import select
import socket
import threading
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from math import inf
from typing import Any, ClassVar, TypeVar

from locking.base import Lease, Lock
from locking.leases import MAX_LEASE, Held, checked, lease_length, time_limit
from locking.terms import (
    SYSTEM_CLOCK,
    Clock,
    LockTimeout,
    LockUnavailable,
    LockUnsupported,
)

T = TypeVar("T")

MAX_PAUSE = 0.1  # s; between tries of a waiter that polls


def watch(fileno: int) -> Callable[[float], object]:
    """Return a function that tells whether a socket has data to read within some milliseconds.

    It reads nothing.  An idle connection expects no answer, so data means that the server has
    closed it.
    """
    if not hasattr(select, "poll"):  # Windows
        return lambda ms: select.select([fileno], [], [], ms / 1000)[0]
    poll = select.poll()  # unlike select, not limited to the first 1,024 files of a process
    poll.register(fileno, select.POLLIN)
    return poll.poll


def started(call: Callable[[], T]) -> Future[T]:
    """Run a call in a daemon thread of its own: waiters would use up the threads of a pool."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # so that nobody cancels it

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller
            outcome.set_exception(error)

    threading.Thread(target=run, name="lock", daemon=True).start()
    return outcome


def hashed_key(prefix: str, name: str) -> str:
    """Return a short ASCII key without spaces for a name of any length, case and script."""
    return f"{prefix}:{hashlib.blake2b(name.encode(), digest_size=20).hexdigest()}"


class Deadline:
    """The deadline of an `acquire` that may take `timeout` seconds, and the pauses of its polls."""

    def __init__(self, timeout: float | None, clock: Clock) -> None:
        self._clock = clock
        self.began = clock.monotonic()
        limit = time_limit(timeout, True)
        self._end = inf if limit is None else self.began + limit
        self._pause = 0.005

    def left(self) -> float:
        """Return the seconds left, 0.0 after the deadline; `inf` if there is none."""
        return max(0.0, self._end - self._clock.monotonic())

    def time_left(self) -> float:
        """Return the seconds left; raise `LockTimeout` if there are none."""
        if self.left() <= 0:
            raise LockTimeout(f"not free within {self.elapsed():.3f} s")
        return self.left()

    def elapsed(self) -> float:
        """Return the seconds since the acquire began."""
        return self._clock.monotonic() - self.began

    def pause(self) -> None:
        """Sleep for a jittered, growing time of at most `MAX_PAUSE`, not past the deadline.

        Raises `LockTimeout` if no time is left, so the last try happens *at* the deadline.  The
        jitter (half to all of the pause) keeps clients that failed together from retrying
        together; see "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        self._clock.sleep(min(self.time_left(), random.uniform(self._pause / 2, self._pause)))
        self._pause = min(MAX_PAUSE, self._pause * 2)


class WaitingLock(Lock):
    """A `Lock` whose `acquire` waits until a deadline; a backend implements the last methods.

    `owner` is the name that others see for its holder, by default `host:process:random`.
    `timeout` is that of every acquire without one, in seconds.
    """

    server: ClassVar[str] = ""
    failures: ClassVar[tuple[type[Exception], ...]] = ()
    """The errors of the server's client that say nothing about the lock."""
    longest: ClassVar[float] = MAX_LEASE
    """The longest lease in seconds that the server keeps."""
    lease_seconds = inf
    """The length of a lease; one without an end lasts as long as a connection or a session."""

    def __init__(
        self,
        name: str,
        *,
        owner: str | None = None,
        timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = checked("the name", name, str, "text")
        self.timeout = time_limit(timeout, True)
        self.owner_name = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.clock = clock
        self._held = Held()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Report an error of the client as `LockUnavailable`."""
        try:
            yield
        except self.failures as error:
            detail = getattr(error, "detail_text", None) or str(error) or repr(error)
            raise LockUnavailable(f"{self.server}: {detail.strip()}") from error

    def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> Lease:
        """See `Lock.acquire`."""
        deadline = Deadline(time_limit(timeout, blocking, self.timeout), self.clock)
        thread = threading.current_thread()
        try:
            with self.asking():
                lease = self._acquire(deadline)
        except BaseException as error:
            self._held.failed(thread)
            if isinstance(error, LockTimeout):
                raise LockTimeout(f"lock {self.name!r}: {error}") from error
            raise
        self._held.add(thread, lease)
        return lease

    @abstractmethod
    def _acquire(self, deadline: Deadline) -> Lease:
        """Wait until `deadline`; raise as `Lock.acquire` does."""

    @abstractmethod
    def _let_go(self, lease: Any) -> bool:
        """Release on the server; return False if the lease was lost.  Must be repeatable."""

    def _prolong(self, lease: Any, seconds: float) -> bool:
        """Ask the server to expire the lease `seconds` from now; return False if it was lost."""
        raise LockUnsupported("the lock ends with its connection and cannot be extended")


class LeasedLock(WaitingLock):
    """A lock with leases of `lease` seconds; other parameters are those of `WaitingLock`."""

    def __init__(self, *where: Any, lease: float = 10.0, **options: Any) -> None:
        super().__init__(*where, **options)
        self.lease_seconds = lease_length(lease, self.longest)


class PollingLock(LeasedLock):
    """A lock whose server has no queue: it keeps a value that is unique to each try."""

    def _acquire(self, deadline: Deadline) -> Lease:
        while True:
            value, sent_at = f"{self.owner_name}|{uuid.uuid4().hex}", self.clock.monotonic()
            lease = self._try(value, sent_at)
            if lease is not None:
                return lease
            deadline.pause()

    @abstractmethod
    def _try(self, value: str, sent_at: float) -> Lease | None:
        """Return a lease from `sent_at` (monotonic) on if the server now keeps the value."""


class BackendLease(Lease):
    """A lease of a `WaitingLock`.

    `grant` is what the server knows it by: a value, a node, a connection.  The command that got it
    was sent at `sent_at` (monotonic).
    """

    __slots__ = ("_lock", "grant")

    def __init__(
        self,
        lock: WaitingLock,
        grant: Any,
        *,
        token: int | None = None,
        sent_at: float | None = None,
    ) -> None:
        super().__init__(
            lock.name,
            token=token,
            seconds=lock.lease_seconds,
            sent_at=sent_at,
            clock=lock.clock,
        )
        self._lock: Any = lock
        self.grant = grant

    def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""
        self.check()
        seconds = lease_length(seconds, self._lock.longest)
        before, deadline = self._deadline, self.clock.monotonic() + seconds
        self._deadline = min(before, deadline)  # the server may shorten it before we know
        try:
            with self._lock.asking():
                ours = self._lock._prolong(self, seconds)
        except LockUnsupported:
            self._deadline = before
            raise
        self._note_extension(ours, deadline)

    def release(self) -> None:
        """See `Lease.release`."""
        if self._released:
            return
        self._is_lost()  # records an expiry before the server is asked
        self._releasing = True
        with self._lock.asking():
            ours = self._lock._let_go(self)
        self._note_release(ours)
