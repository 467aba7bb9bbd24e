"""Time limits of a connection's reads."""

from __future__ import annotations

import time
from typing import Any

import gevent
from gunicorn.http.unreader import SocketUnreader

PASSED = 0.0
"""A deadline that has passed and been extended once."""


class WaitLimit:
    """Context that raises TimeoutError in a greenlet that waits in it for too long.

    gevent.Timeout, which socket time-outs use, takes 4 µs to make and start. This takes 0.4 when
    used again, as by each of a connection's requests.
    """

    def __init__(self, seconds: float) -> None:
        self._timer = gevent.get_hub().loop.timer(seconds, seconds)

    def __enter__(self) -> None:
        self._timer.again(gevent.getcurrent().throw, TimeoutError)

    def __exit__(self, *error: object) -> None:
        self._timer.stop()


class TimedUnreader(SocketUnreader):
    """gunicorn's receive buffer of a connection, with a deadline for reads.

    Args:
        sock: the connection.
        idle: seconds that the connection may be idle between requests; also the socket's time-out,
            which applies while an answer is sent.
    """

    def __init__(self, sock: Any, idle: float) -> None:
        super().__init__(sock)
        self.idle = idle
        self.idle_limit = WaitLimit(idle)
        self.deadline: float | None = None
        sock.settimeout(idle)

    def allow(self, seconds: float) -> None:
        """Set the deadline of the following reads."""
        self.deadline = time.monotonic() + seconds

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Receive a piece.

        Raises:
            TimeoutError: the deadline has passed.
        """
        limit = self.idle_limit if self.deadline is None else self._limit(self.deadline)
        self.sock.settimeout(None)
        try:
            with limit:
                data: bytes = super().chunk(size_hint)
        finally:
            self.sock.settimeout(self.idle)
        return data

    def _limit(self, deadline: float) -> WaitLimit:
        if deadline == PASSED:
            raise TimeoutError
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            # One more read, for what arrived while this process was busy or paused.
            self.deadline, seconds = PASSED, 0.001
        return WaitLimit(seconds)
