"""Distributed locks: one contract, and one backend for each kind of server.

The package needs neither Django nor the rest of this repository; copy the folder to reuse it.
"""

from locking.base import AsyncLock, Lease, Lock
from locking.exclusive import exclusively, run_exclusively
from locking.terms import (
    Capabilities,
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    LockUnavailable,
    LockUnsupported,
)

__all__ = [
    "AsyncLock",
    "Capabilities",
    "Lease",
    "Lock",
    "LockError",
    "LockLost",
    "LockNotHeld",
    "LockTimeout",
    "LockUnavailable",
    "LockUnsupported",
    "exclusively",
    "run_exclusively",
]
