"""Distributed locks: one contract, and one backend for each kind of server.

The package needs neither Django nor the rest of this repository; copy the folder to use it.
"""

from locking.base import (
    AsyncLease,
    AsyncLock,
    Capabilities,
    Lease,
    Lock,
    LockError,
    LockLost,
    LockTimeout,
    LockUnavailable,
    LockUnsupported,
)
from locking.exclusive import exclusively, run_exclusively

__all__ = [
    "AsyncLease",
    "AsyncLock",
    "Capabilities",
    "Lease",
    "Lock",
    "LockError",
    "LockLost",
    "LockTimeout",
    "LockUnavailable",
    "LockUnsupported",
    "exclusively",
    "run_exclusively",
]
