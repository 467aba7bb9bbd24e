"""How many files and sockets this process may have open, and whether that is enough."""

from __future__ import annotations

import contextlib
import resource

# What macOS allows at most when the hard limit says "unlimited".
_MACOS_MOST = 10_240
# Files and sockets of the process itself: logs, history, the master, the UI.
_OWN = 64


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns what is now allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, _MACOS_MOST):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def file_shortage(users: int, allowed: int) -> str | None:
    """What to tell the user if `allowed` open files are too few for `users`; None if they do."""
    # A user who clicks twice at once has two connections.
    needed = 2 * users + _OWN
    if allowed == resource.RLIM_INFINITY or needed <= allowed:
        return None
    return (
        f"{users} users need up to {needed} open files and this system allows {allowed}: raise the "
        f"hard limit (ulimit -Hn), or spread the users with --processes"
    )
