"""Distributed locks: one contract, and one backend for each kind of server.

The package needs neither Django nor the rest of this repository; copy the folder to reuse it.
"""

from locking.base import AsyncLock, Lease, Lock
from locking.exclusive import acquire_all, acquire_all_async, exclusively, run_exclusively
from locking.terms import (
    Capabilities,
    Hooks,
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
    "Hooks",
    "Lease",
    "Lock",
    "LockError",
    "LockLost",
    "LockNotHeld",
    "LockTimeout",
    "LockUnavailable",
    "LockUnsupported",
    "acquire_all",
    "acquire_all_async",
    "exclusively",
    "run_exclusively",
]
