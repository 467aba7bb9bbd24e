"""A cheap wait function for psycopg under gevent.

psycopg waits through the patched `select.poll`, which creates half a dozen objects per wait, and
a batch waits several times for the database. One gevent watcher does it in a tenth of the time. The
hook is psycopg's own (`psycopg.waiting`); only gevent workers install it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import gevent
import psycopg.waiting
from psycopg.errors import _WaitTimeout
from psycopg.waiting import Ready, Wait

T = TypeVar("T")


def wait(
    gen: Generator[Any, Any, T],
    fileno: int,
    interval: float = 0.0,
    timeout: float | None = None,
) -> T:
    """Drive a psycopg generator; switch to other greenlets while waiting for the server.

    Args:
        gen: yields the events to wait for and is sent those that occurred.
        fileno: of the connection's socket.
        interval: unused; gevent can interrupt a waiting greenlet.
        timeout: seconds; None: as long as it takes.

    Raises:
        _WaitTimeout: it took longer, which psycopg expects of its wait functions.
    """
    if timeout is not None:
        with gevent.Timeout(timeout, _WaitTimeout(f"no answer within {timeout:g} s")):
            return wait(gen, fileno)
    hub = gevent.get_hub()
    try:
        wanted = next(gen)
        while True:
            hub.wait(hub.loop.io(fileno, int(wanted)))
            # If asked for both events, report both: psycopg finds out which by trying.
            wanted = gen.send(Ready(int(wanted)))
    except StopIteration as done:
        answer: T = done.value
        return answer


def install() -> None:
    """Install `wait` as psycopg's wait function in this process."""
    assert (Wait.R, Wait.W) == (1, 2), "psycopg's events are no longer those of gevent"
    psycopg.waiting.wait = wait
