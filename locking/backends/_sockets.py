"""What can be learnt of a socket without reading it: that its end has come, or its answer."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from time import perf_counter

SPIN_SECONDS = 100e-6
"""Seconds for which an answer is looked for before the thread sleeps.  A server on the same machine
answers within half of it, and to wake a sleeping thread takes about as long."""

MAX_SKIPPED = 128
"""Commands without spinning, at most: after the first answer that came later there are two, and
each further one doubles them, so that a server across a network is hardly ever spun for."""


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


class Spinner:
    """Looks for an answer a moment before the thread goes to sleep for it, while that pays.

    A round trip to a server on the same machine is mostly sleeping and being woken, on both sides.
    Spinning first, no longer than a sleep costs, at most doubles the price (Karlin, Li, Manasse,
    Owicki: "Empirical studies of competitive spinning", SOSP 1991).  Where it was in vain it is
    left for a while, and the longer the more often it was.

    `is_readable` says whether the answer is there.
    """

    __slots__ = ("_is_readable", "_left", "_rest")

    def __init__(self, is_readable: Callable[[], bool]) -> None:
        self._is_readable = is_readable
        self._rest = 1
        self._left = 0

    def spin(self) -> None:
        """Return when the answer is there, or when it is time to sleep; call it once a command."""
        if self._left:
            self._left -= 1
            return
        give_up = perf_counter() + SPIN_SECONDS
        while not self._is_readable():
            if perf_counter() > give_up:
                self._rest = self._left = min(2 * self._rest, MAX_SKIPPED)
                return
        self._rest = 1

    def suspend(self) -> None:
        """Leave it for long: there is a queue, and those in it need the processor."""
        self._rest = self._left = MAX_SKIPPED


def is_cooperative(connected: socket.socket) -> bool:
    """Whether others run in this thread while this socket waits, as with gevent's."""
    return type(connected).__module__.startswith("gevent.")
