"""The operating system's limit on open files; each connection uses one."""

from __future__ import annotations

import resource
from contextlib import suppress

# Tried in this order if the hard limit is "unlimited": macOS then still refuses more than 10,240.
WANTED = (65_536, 10_240)


def raise_open_files() -> None:
    """Raise this process's soft limit of open files to its maximum.

    The default is 256 on macOS and 1,024 on many Linux systems: too few for 2,000 clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in WANTED if hard == resource.RLIM_INFINITY else (hard,):
        if soft != resource.RLIM_INFINITY and soft < limit:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                return
