"""Whether an idle connection is still good, without asking the server."""

from __future__ import annotations

import select
from collections.abc import Callable


def readable(fileno: int) -> bool:
    """Whether a socket has something to read: on an idle connection, its end.

    Nobody owes an idle connection an answer, so what can be read means that the server went away.
    """
    return watch(fileno)()


def watch(fileno: int) -> Callable[[], bool]:
    """Return `readable` for one socket, prepared, for those who ask before every command."""
    if not hasattr(select, "poll"):  # Windows
        return lambda: bool(select.select([fileno], [], [], 0)[0])
    poll = select.poll()  # unlike select, not limited to the first 1,024 files of a process
    poll.register(fileno, select.POLLIN)
    return lambda: bool(poll.poll(0))
