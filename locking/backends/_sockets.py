"""Socket checks that read nothing: whether a connection is dead, or an answer has arrived."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable


def watch(fileno: int) -> Callable[[float], object]:
    """Return a function that tells whether a socket has data to read within some milliseconds.

    An idle connection expects no answer, so data means that the server has closed it.
    """
    if not hasattr(select, "poll"):  # Windows
        return lambda ms: select.select([fileno], [], [], ms / 1000)[0]
    poll = select.poll()  # unlike select, not limited to the first 1,024 files of a process
    poll.register(fileno, select.POLLIN)
    return poll.poll


def is_cooperative(connected: socket.socket) -> bool:
    """Return whether other tasks run in this thread while the socket waits, as with gevent."""
    return type(connected).__module__.startswith("gevent.")
