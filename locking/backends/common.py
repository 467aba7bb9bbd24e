"""What the backends share: names, errors of their clients, tries with a pause in between."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import socket
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from locking.base import (
    MAX_LEASE,
    Lease,
    Lock,
    LockTimeout,
    LockUnavailable,
    LockUnsupported,
    lease_seconds,
    lock_name,
    wait_seconds,
)

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1
"""Seconds between the first two tries of a waiter that polls, and the longest later pause."""


def hashed_key(name: str) -> str:
    """Return a short key in ASCII, without spaces, for a name of any length and script."""
    return "lock:" + hashlib.blake2b(name.encode(), digest_size=20).hexdigest()


class Backend(Lock):
    """A lock of a server other than one Redis.

    Args:
        name: the lock's.
        owner: the holder's name for others, by default "host:process id:" and a random number.
        timeout: seconds for which an acquire without its own waits; None: without an end.
    """

    server: ClassVar[str]
    """The server's name, for errors."""
    failures: ClassVar[tuple[type[Exception], ...]]
    """The errors of its client, which say nothing about the lock."""

    def __init__(self, name: str, *, owner: str = "", timeout: float | None = None) -> None:
        super().__init__()
        self.name = lock_name(name)
        self.owner_name = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.timeout = timeout
        wait_seconds(timeout)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Turn an error of the server's client into `LockUnavailable`."""
        try:
            yield
        except self.failures as error:
            # etcd3gw keeps the server's words apart.
            detail = getattr(error, "detail_text", None) or str(error) or repr(error)
            raise LockUnavailable(f"{self.server}: {detail.strip()}") from error

    def acquire(self, timeout: float | None = None) -> Lease:
        """See `Lock.acquire`."""
        limit = wait_seconds(self.timeout if timeout is None else timeout)
        with self.asking():
            return self._acquire(time.monotonic() + limit)

    @abstractmethod
    def _acquire(self, deadline: float) -> Lease:
        """Return a lease; wait for it until the deadline (monotonic), at which the last try is."""

    def _log_eviction(self, held: bool, reason: str) -> bool:
        """Log that an operator has taken the lock, if it was held; return that."""
        if held:
            logger.warning("the lock %r was taken from its holder: %s", self.name, reason)
        return held

    def _not_in_time(self) -> LockTimeout:
        return LockTimeout(f"the lock {self.name!r} was not free in time")


class LeasedBackend(Backend):
    """A lock whose server keeps it for `lease` seconds; other arguments are those of `Backend`."""

    longest: ClassVar[float] = MAX_LEASE
    """Seconds: the longest lease that the server keeps."""

    def __init__(self, name: str, *, lease: float = 10.0, **options: Any) -> None:
        super().__init__(name, **options)
        self.seconds = lease_seconds(lease, self.longest)


class Grant(NamedTuple):
    """What a server has granted: what it is known as there, and the fencing token."""

    known_as: Any
    token: int | None = None


class PollingBackend(LeasedBackend):
    """A lock whose server has no queue: waiters try again and again, in no order."""

    def _acquire(self, deadline: float) -> Lease:
        pause = FIRST_PAUSE
        while True:
            # A value of its own for each try, so that no client takes another's lock for its own.
            value = f"{self.owner_name}|{uuid.uuid4().hex}"
            sent_at = time.monotonic()
            grant = self._try(value)
            if grant is not None:
                lease = BackendLease(self, grant.known_as)
                lease.begin(sent_at + self.seconds, grant.token)
                if lease.remaining() > 0:
                    return lease
                self._let_go(lease)
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._not_in_time()
            # The jitter keeps clients that failed together from trying together again ("Exponential
            # Backoff And Jitter", AWS Architecture Blog, 2015).
            time.sleep(min(left, random.uniform(pause / 2, pause)))
            pause = min(LONGEST_PAUSE, 2 * pause)

    @abstractmethod
    def _try(self, value: str) -> Grant | None:
        """Ask the server once to keep the lock under this value; return its grant."""

    @abstractmethod
    def _let_go(self, lease: BackendLease) -> bool:
        """Release on the server; return whether the lock was ours. Must be repeatable."""

    def _prolong(self, lease: BackendLease, seconds: float) -> bool:
        """Have the lease end so many seconds from now; return whether the lock was ours."""
        raise LockUnsupported(f"{self.server} cannot extend a lock")


class BackendLease(Lease):
    """A lease of a backend.

    Attributes:
        grant: what the server knows it by: a value, a node, a connection.
        progress: of a release on several servers that is not over: those that have released it,
            and those that may have.
    """

    __slots__ = ("_backend", "grant", "progress")

    def __init__(self, backend: Any, grant: Any) -> None:
        super().__init__(backend.name)
        self._backend = backend
        self.grant = grant
        self.progress: tuple[set[int], set[int]] = (set(), set())

    def extend(self, seconds: float) -> None:
        """See `Lease.extend`."""
        seconds = lease_seconds(seconds, getattr(self._backend, "longest", MAX_LEASE))
        self.check()
        if not self._backend.capabilities.extend:
            raise LockUnsupported(f"{self._backend.server} cannot extend a lock")
        deadline = time.monotonic() + seconds
        self._deadline = min(self._deadline, deadline)  # it may be shortened before we know it
        with self._backend.asking():
            ours = self._backend._prolong(self, seconds)
        if ours:
            self._deadline = deadline
        else:
            self.mark_lost("the server no longer knows it")
        self.check()

    def release(self) -> None:
        """See `Lease.release`."""
        if self.released:
            return
        self.lost_reason()  # an end that is over is noted before the server is asked
        with self._backend.asking():
            ours = self._backend._let_go(self)
        self.mark_released(held=ours)
