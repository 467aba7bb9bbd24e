"""A cheap wait function for psycopg under gevent.

psycopg waits cooperatively through the patched ``select.poll``, which makes and drops half a dozen
objects for each wait; a batch waits several times for the database. One watcher does the same for
a tenth of the time. It is psycopg's own seam (``psycopg.waiting``), used by gevent workers only.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import gevent
import psycopg.waiting
from psycopg.waiting import Ready, Wait

T = TypeVar("T")

READ, WRITE = 1, 2
"""Events of gevent's watchers; psycopg's have the same values."""


_psycopgs_own = psycopg.waiting.wait_poll


def wait(
    gen: Generator[Any, Any, T],
    fileno: int,
    interval: float = 0.0,
    timeout: float | None = None,
) -> T:
    """Drive a psycopg generator, switching to other greenlets while the server is waited for.

    Args:
        gen: yields what it waits for and is sent what is ready.
        fileno: of the connection's socket.
        interval: not needed here; gevent interrupts a waiting greenlet by itself.
        timeout: seconds; used by psycopg where time does not matter, so it waits its own way.
    """
    if timeout is not None:
        return _psycopgs_own(gen, fileno, interval, timeout)
    hub = gevent.get_hub()
    try:
        wanted = next(gen)
        while True:
            hub.wait(hub.loop.io(fileno, int(wanted)))
            # Readable or writable: asked for both, it is told both and finds out by trying.
            wanted = gen.send(Ready(int(wanted)))
    except StopIteration as done:
        answer: T = done.value
        return answer


def install() -> None:
    """Install `wait` as psycopg's wait function in this process."""
    assert (READ, WRITE) == (Wait.R, Wait.W), "psycopg has changed its events"
    psycopg.waiting.wait = wait
