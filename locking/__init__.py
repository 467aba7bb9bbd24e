"""Distributed locks: one contract, a backend for each kind of server, and the locks that fail.

Nothing here needs Django or anything else of this repository; the folder can be lifted out.
"""

from locking.base import (
    Capabilities,
    Hooks,
    Lease,
    Lock,
    LockError,
    LockLost,
    LockTimeout,
    LockUnavailable,
    LockUnsupported,
)
from locking.exclusive import exclusively, run_exclusively
from locking.ordered import acquire_all

__all__ = [
    "Capabilities",
    "Hooks",
    "Lease",
    "Lock",
    "LockError",
    "LockLost",
    "LockTimeout",
    "LockUnavailable",
    "LockUnsupported",
    "acquire_all",
    "exclusively",
    "run_exclusively",
]
