"""The contract of every lock here: how to acquire, what a lease promises, which errors there are.

A lock must admit one client at a time, become free when its holder crashes, and tell those who wait
that it is free. A handle names the lock; `acquire` returns a *lease*: the lock, for a limited time.

    with RedisLock(client, "item:7").acquire(timeout=2) as lease:
        sell(fence=lease.token)

The lease object stands for the lock: any thread or task that has it may extend or release it. If
the program drops the object without a release, the lease is no longer renewed and ends by itself.

No lease protects against a holder that is paused past its end without noticing. So what the lock
guards should also refuse a smaller fencing token than it has seen (Martin Kleppmann, "How to do
distributed locking", 2016).
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, overload

logger = logging.getLogger("locking")


class LockError(Exception):
    """Base class of all errors of a lock."""


class LockTimeout(LockError):
    """The lock was not free within the caller's time-out."""


class LockLost(LockError):
    """The lease ended before its release: another client may hold the lock."""


class LockUnavailable(LockError):
    """The lock's server does not answer or refuses; its error is the cause.

    From `acquire`: the caller does not hold the lock. From `release`: the server may have released
    it or not; call `release` again, or let the lease end.
    """


class LockUnsupported(LockError):
    """The backend cannot do this; its `capabilities` say what it can."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend promises beyond letting one client in.

    Attributes:
        fence: leases have a token that grows with every grant.
        fair: waiters get the lock in the order in which they came.
        renewal: the lease of a holder that lives and can reach its server does not end.
        extend: `Lease.extend` works.
        reentrant: a handle can be made that acquires again what it holds.
        crash_release: what frees the lock of a crashed holder: its "lease" ends, or the server sees
            the end of its "connection" or session, which is sooner.
        survives_restart: the lock is still held after its server was killed and started without
            its data.
        owner: `Lock.owner` names the holder.
        waiters: `Lock.waiters` counts those who wait.
        force_release: an operator can take the lock from its holder.
    """

    fence: bool = False
    fair: bool = False
    renewal: bool = False
    extend: bool = False
    reentrant: bool = False
    crash_release: Literal["lease", "connection"] = "lease"
    survives_restart: bool = False
    owner: bool = False
    waiters: bool = False
    force_release: bool = False


MIN_LEASE = 0.001
"""Seconds: servers count in milliseconds."""

MAX_LEASE = 10 * 366 * 86_400.0
"""Seconds: ten years, which every server can count."""


def lease_seconds(seconds: float, longest: float = MAX_LEASE) -> float:
    """Return the length of a lease in seconds.

    Raises:
        TypeError: it is not a number.
        ValueError: it is below a millisecond, or longer than the server can count.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"a lease is a number of seconds, not {seconds!r}")
    if not MIN_LEASE <= seconds <= longest:  # NaN is refused here as well
        raise ValueError(f"a lease lasts from 0.001 to {longest:.0f} seconds, not {seconds}")
    return float(seconds)


def wait_seconds(timeout: float | None) -> float:
    """Return how long to wait for the lock, in seconds; infinity without a time-out.

    Raises:
        TypeError: it is not a number.
        ValueError: it is negative.
    """
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"a time-out is a number of seconds, not {timeout!r}")
    if not timeout >= 0:  # NaN is refused here as well
        raise ValueError(f"a time-out is not negative: {timeout}; None waits without an end")
    return float(timeout)


def lock_name(name: object) -> str:
    """Return the name of a lock.

    Raises:
        TypeError: it is not text.
        ValueError: it is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f"a lock's name is text, not {name!r}")
    if not name:
        raise ValueError("a lock's name is not empty")
    return name


class Flag:
    """What one thread sets and another waits for. An exception of a signal cannot break it.

    Such an exception may end `threading.Event.wait` or `set` between two of their steps, while they
    hold the event's own lock. Nobody releases that any more: the next one who sets the event, such
    as the thread that renews leases, waits without end. A bare lock is taken and given back in one
    step each. Here it is free while the flag is set.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Set the flag, which wakes one who waits."""
        with suppress(RuntimeError):  # it was set already
            self._lock.release()

    def wait(self, seconds: float | None) -> bool:
        """Wait until the flag is set, and clear it.

        Args:
            seconds: to wait at most; None for as long as it takes.

        Returns:
            Whether it was set.
        """
        return self._lock.acquire(timeout=-1 if seconds is None else max(0.0, seconds))

    def clear(self) -> None:
        """Clear the flag."""
        self._lock.acquire(blocking=False)


class LostEvent:
    """Tells that a lease was lost; used like a `threading.Event` that is never cleared.

    It counts as set as soon as the lease has ended by this process's clock, without a thread that
    watches it.
    """

    __slots__ = ("_lease",)

    def __init__(self, lease: LeaseState) -> None:
        self._lease = lease

    @property
    def reason(self) -> str:
        """Why the lease was lost; empty if it was not."""
        return self._lease.lost_reason()

    def is_set(self) -> bool:
        """Return whether the lease is lost. One that was released in time is not."""
        return bool(self._lease.lost_reason())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is lost or released, at most `timeout` seconds; return `is_set()`."""
        lease, give_up = self._lease, time.monotonic() + wait_seconds(timeout)
        over = lease.over_flag()
        while not self.is_set() and not lease.released:
            left = min(give_up - time.monotonic(), lease.remaining())
            if time.monotonic() >= give_up:
                return False
            # The lease may be extended meanwhile; then this goes on.
            if over.wait(None if math.isinf(left) else min(left, threading.TIMEOUT_MAX)):
                over.set()  # for others who wait
        return self.is_set()


class LeaseState:
    """What a process knows of a lease: its end, and whether it was lost or released.

    Args:
        name: the lock's.
    """

    __slots__ = ("__weakref__", "_deadline", "_granted", "_guard", "_lost", "_over", "_released",
                 "name", "token")  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.token: int | None = None
        self._granted = False
        self._deadline = 0.0
        self._released = False
        self._lost = ""
        self._guard = threading.Lock()
        self._over: Flag | None = None

    def begin(self, deadline: float, token: int | None = None) -> None:
        """Note that the server has granted the lease.

        Args:
            deadline: monotonic time at which it ends, counted from *before* the command was sent:
                so it ends here no later than on the server. Infinity for one that ends with a
                connection.
            token: the fencing token, if the backend has one.
        """
        self._deadline, self.token, self._granted = deadline, token, True

    @property
    def released(self) -> bool:
        """Whether `release` has succeeded, or has found the lease gone."""
        return self._released

    @property
    def lost(self) -> LostEvent:
        """The event that the lease was lost."""
        return LostEvent(self)

    def remaining(self) -> float:
        """Return for how many seconds the lock is certainly held; 0.0 if it may not be."""
        if self._released or self.lost_reason():
            return 0.0
        return max(0.0, self._deadline - time.monotonic())

    def check(self) -> None:
        """Do nothing while the lease lasts.

        Raises:
            LockLost: it is lost or released.
        """
        if reason := self.lost_reason():
            raise LockLost(f"the lease of {self.name!r} is lost: {reason}")
        if self._released:
            raise LockLost(f"the lease of {self.name!r} was released")

    def lost_reason(self) -> str:
        """Return why the lease was lost, noting it if its time is over; empty if it is not."""
        if not self._lost and not self._released and time.monotonic() >= self._deadline:
            self.mark_lost("its time is over")
        return self._lost

    def mark_lost(self, reason: str) -> None:
        """Note that the lease is lost, unless it was released. For backends."""
        with self._guard:
            if self._released or self._lost:
                return
            self._lost = reason
            over = self._over
        if over is not None:
            over.set()

    def mark_released(self, *, held: bool = True) -> None:
        """Note that the server has answered a release. For backends.

        Args:
            held: whether the lock was still ours.

        Raises:
            LockLost: it was not.
        """
        if not held:
            self.mark_lost("the server no longer knows it")
        with self._guard:
            self._released = True
            over = self._over
        if over is not None:
            over.set()
        if self._lost:
            raise LockLost(f"the lease of {self.name!r} is lost: {self._lost}")

    def over_flag(self) -> Flag:
        """Return a flag that is set when the lease is lost or released."""
        with self._guard:
            if self._over is None:
                self._over = Flag()
                if self._lost or self._released:
                    self._over.set()
            return self._over

    def __repr__(self) -> str:
        if self._released and not self._lost:
            state = "released"
        elif reason := self.lost_reason():
            state = f"lost: {reason}"
        else:
            state = f"held for {self.remaining():.1f} s"
        token = "" if self.token is None else f", token {self.token}"
        return f"<{type(self).__name__} of {self.name!r}{token}, {state}>"

    def __del__(self) -> None:
        # A signal's exception may have ended `__init__`, so that some attributes are missing.
        granted = getattr(self, "_granted", False)
        if granted and not self._released and not self._lost and not sys.is_finalizing():
            warnings.warn(
                f"the lease of lock {self.name!r} was dropped without a release: others wait "
                "until it ends. Use `with`, or call `release`.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


@contextmanager
def note_on(error: BaseException | None) -> Iterator[None]:
    """Turn a `LockError` into a note on the error that a block already has, if it has one."""
    try:
        yield
    except LockError as problem:
        if error is None:
            raise
        if str(problem) != str(error):
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class Lease(LeaseState, ABC):
    """A granted lock: while `remaining()` is not 0, no other client holds it.

    As a context manager it releases the lock at the end of the block. If the lease was lost, that
    raises `LockLost`; if the block raised, its own error goes on, with a note.

    Attributes:
        name: the lock's.
        token: the fencing token; None where the backend has none.
    """

    __slots__ = ()

    @abstractmethod
    def extend(self, seconds: float) -> None:
        """Let the lease end so many seconds from now; one that is lost is never made anew.

        Raises:
            LockLost: another client may hold the lock.
            LockUnavailable: the server does not answer; the earlier of both ends counts.
            LockUnsupported: the backend's leases have no end.
            ValueError: as `lease_seconds`; nothing has changed.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the lock; do nothing if it is released.

        Raises:
            LockLost: the lease had ended before.
            LockUnavailable: the server does not answer; `release` may be called again.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with note_on(error):
            self.release()


class AsyncLease(LeaseState, ABC):
    """A lease of an asyncio lock: `Lease`, with methods to await."""

    __slots__ = ()

    @abstractmethod
    async def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""

    @abstractmethod
    async def release(self) -> None:
        """See `Lease.release`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with note_on(error):
            await self.release()


class Entered:
    """The leases of a handle's `with` blocks whose ends are called through the handle.

    Blocks nest like a stack. A block belongs to the thread or task that entered it, so that threads
    may share a handle.
    """

    __slots__ = ("_leases",)

    def __init__(self) -> None:
        self._leases: list[tuple[object, Any]] = []

    def push(self, caller: object, lease: Any) -> None:
        """Note a block that begins."""
        self._leases.append((caller, lease))

    def pop(self, caller: object) -> Any:
        """Return the lease of the caller's innermost block, which ends.

        A generator may end its block in another thread than it began: that is the latest one.

        Raises:
            LockError: no block is left.
        """
        for place in range(len(self._leases) - 1, -1, -1):
            if self._leases[place][0] == caller:
                return self._leases.pop(place)[1]
        if not self._leases:
            raise LockError("this block has ended before")
        return self._leases.pop()[1]


class Block:
    """One `with` block of a handle: holds the block's lease, and ends it.

    Python keeps it for as long as the block runs.
    """

    __slots__ = ("__weakref__", "lease")

    def __init__(self) -> None:
        self.lease: Lease | None = None

    def __call__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the block: what `with` calls as `__exit__`."""
        assert self.lease is not None, "the block has begun"
        self.lease.__exit__(kind, error, traceback)


class ExitOfBlock:
    """`Lock.__exit__`: a `with` statement that looks it up gets a `Block` of its own.

    A method would find the block's lease in the handle. But a signal's exception (Ctrl-C, Celery's
    soft time limit) can end a block before a single line of that method has run. The handle would
    keep the lease, and it would be renewed for as long as the handle lives. A `Block` goes with its
    block, and so does the lease: it is renewed no longer, and the lock is free when it ends.

    `contextlib.ExitStack` takes `__exit__` from the class; it gets the plain method.
    """

    @overload
    def __get__(self, lock: None, owner: type) -> Callable[..., None]: ...
    @overload
    def __get__(self, lock: Lock, owner: type) -> Block: ...
    def __get__(self, lock: Lock | None, owner: type) -> Callable[..., None] | Block:
        """Return what ends one block; see the class."""
        if lock is None:
            return _exit_latest
        block = Block()
        lock._begins[threading.get_ident()] = weakref.ref(block)
        return block


def _exit_latest(lock: Lock, kind: object, error: BaseException | None, traceback: object) -> None:
    """End the block that the calling thread has entered last by `__enter__` alone."""
    lease: Lease = lock._entered.pop(threading.get_ident())
    lease.__exit__(kind, error, traceback)


class Lock(ABC):
    """A handle of a named lock; cheap to make, and it sends nothing before `acquire`.

    All handles of one name on one server exclude each other, in every process, and in one thread
    too. As a context manager a handle acquires without a time-out, or with its own:

    >>> with lock as lease:  # doctest: +SKIP
    ...     sell(fence=lease.token)
    """

    name: str
    capabilities: ClassVar[Capabilities]

    def __init__(self) -> None:
        self._entered = Entered()
        # By thread: the block whose `with` statement has looked up `__exit__` and calls
        # `__enter__` next.
        self._begins: dict[int, weakref.ref[Block]] = {}

    @abstractmethod
    def acquire(self, timeout: float | None = None) -> Lease:
        """Wait until the lock is ours.

        Args:
            timeout: seconds to wait; 0 tries once, None waits without an end or for the time-out
                that the handle was made with.

        Raises:
            LockTimeout: it was not free in time.
            LockUnavailable: its server does not answer.
        """

    def owner(self) -> str | None:
        """Return the name that the holder's handle was given; None if the lock is free."""
        raise LockUnsupported(f"{type(self).__name__} cannot name the holder of a lock")

    def locked(self) -> bool:
        """Return whether anybody holds the lock."""
        return self.owner() is not None

    def waiters(self) -> int:
        """Return how many clients wait for the lock."""
        raise LockUnsupported(f"{type(self).__name__} cannot count who waits for a lock")

    def force_release(self, reason: str) -> bool:
        """Take the lock from its holder, for operators; return whether it was held.

        The holder learns of it when it next renews, extends or releases. The reason is logged.
        """
        raise LockUnsupported(f"{type(self).__name__} cannot take a lock from its holder")

    def __enter__(self) -> Lease:
        begun = self._begins.pop(threading.get_ident(), None)
        block = None if begun is None else begun()
        lease = self.acquire()
        if block is None:
            self._entered.push(threading.get_ident(), lease)
        else:
            block.lease = lease
        return lease

    __exit__ = ExitOfBlock()


class AsyncLock(ABC):
    """A handle for asyncio: `Lock`, with methods to await; a task takes the place of a thread."""

    name: str

    def __init__(self) -> None:
        self._entered = Entered()

    @abstractmethod
    async def acquire(self, timeout: float | None = None) -> AsyncLease:
        """See `Lock.acquire`."""

    async def __aenter__(self) -> Any:
        lease = await self.acquire()
        self._entered.push(asyncio.current_task(), lease)
        return lease

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        lease: AsyncLease = self._entered.pop(asyncio.current_task())
        await lease.__aexit__(kind, error, traceback)
