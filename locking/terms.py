"""The terms of the locks' contract: errors, capabilities and time.

A lock must admit exactly one client, become free when its holder crashes, and notify the waiters
when it is free.  A client gets a *lease*: a lock that expires.  No lease protects against a holder
that is paused past its expiry without noticing, so the guarded resource should also check the
lease's fencing token (Martin Kleppmann, "How to do distributed locking", 2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


class LockError(Exception):
    """Base class of all lock errors."""


class LockNotHeld(LockError):
    """The calling thread or task holds no lease of this handle."""


class LockTimeout(LockError):
    """The lock was not free within the caller's timeout."""


class LockLost(LockError):
    """The lease expired or was revoked before its release; another client may hold the lock."""


class LockUnavailable(LockError):
    """The lock's server cannot be reached, does not answer or refuses; the cause is chained.

    From `acquire`: the caller holds no lock.  From `release`: the server may or may not
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


def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # resolved at each call, so that gevent can patch it after this import


@dataclass(frozen=True, slots=True)
class Clock:
    """A lock's source of time; the simulator replaces it with virtual time."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds from an arbitrary start; never steps back, unlike the wall clock."""
    sleep: Callable[[float], None] = _sleep


SYSTEM_CLOCK = Clock()
