"""Socket checks that read nothing: whether a connection is dead, or an answer has arrived."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from time import perf_counter

SPIN_SECONDS = 100e-6
"""Seconds to poll for an answer before the thread sleeps.  A server on the same machine answers in
half of that, and waking a sleeping thread takes about as long."""

MAX_SKIPPED = 128
"""The largest number of commands without spinning.  The first late answer skips two commands and
each further one doubles the number, so the thread hardly ever spins for a server on a network."""


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


class Spinner:
    """Polls for an answer before the thread sleeps, as long as that is faster.

    On one machine, most of a round trip is spent on sleeping and waking.  Spinning for no longer
    than a sleep costs at most doubles the price (Karlin, Li, Manasse, Owicki: "Empirical studies
    of competitive spinning", SOSP 1991).  After a late answer, the spinner skips some commands;
    each further late answer doubles their number.

    `is_readable(0)` tells whether the answer has arrived.
    """

    __slots__ = ("_is_readable", "_left", "_rest")

    def __init__(self, is_readable: Callable[[float], object]) -> None:
        self._is_readable = is_readable
        self._rest = 1
        self._left = 0

    def spin(self) -> bool:
        """Return True when the answer has arrived, False when it is time to sleep.

        Call it once per command.
        """
        if self._left:
            self._left -= 1
            return False
        give_up = perf_counter() + SPIN_SECONDS
        while not self._is_readable(0):
            if perf_counter() > give_up:
                self._rest = self._left = min(2 * self._rest, MAX_SKIPPED)
                return False
        self._rest = 1
        return True

    def suspend(self) -> None:
        """Skip the largest number of commands: the others in a queue need the processor."""
        self._rest = self._left = MAX_SKIPPED


def is_cooperative(connected: socket.socket) -> bool:
    """Return whether other tasks run in this thread while the socket waits, as with gevent."""
    return type(connected).__module__.startswith("gevent.")
