"""The operating system's limit on open files; each connection uses one."""

from __future__ import annotations

import resource

# Tried in this order if the hard limit is "unlimited": macOS then still refuses more than 10,240.
WANTED = (65_536, 10_240)


def raise_open_files() -> int:
    """Raise this process's soft limit of open files to its maximum; return the limit.

    The default is 256 on macOS and 1,024 on many Linux systems: too few for 2,000 buyers.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    candidates = WANTED if hard == resource.RLIM_INFINITY else (hard,)
    for limit in candidates:
        if soft != resource.RLIM_INFINITY and soft < limit:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            except (ValueError, OSError):
                continue
            return limit
    return soft
