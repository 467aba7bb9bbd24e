"""Socket checks that read nothing: whether a connection is dead, or an answer has arrived."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable


def readable(fileno: int) -> bool:
    """Return whether a socket has data to read.

    An idle connection expects no answer, so readable means that the server has closed it.
    """
    return bool(watch(fileno)(0))


def watch(fileno: int) -> Callable[[float], object]:
    """Return a fast version of `readable` for one socket, which waits for the given milliseconds.

    What it returns is true if there is data to read.
    """
    if not hasattr(select, "poll"):  # Windows
        return lambda ms: select.select([fileno], [], [], ms / 1000)[0]
    poll = select.poll()  # unlike select, not limited to the first 1,024 files of a process
    poll.register(fileno, select.POLLIN)
    return poll.poll


def is_cooperative(connected: socket.socket) -> bool:
    """Return whether other tasks run in this thread while the socket waits, as with gevent."""
    return type(connected).__module__.startswith("gevent.")
