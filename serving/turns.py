"""Turns of requests in a gevent worker, so that urgent ones do not wait for a thousand others.

A worker runs one request at a time. An urgent request waits a dozen times for the database or a
lock, and each time it goes on in the next round of the event loop, after all requests that have
arrived meanwhile: with five hundred of them, 60 ms later. So only a few others begin in each round,
in the order of their arrival. While an urgent request is under way, a few begin in every other
millisecond, since the database and the locks' server need the processor too.

Under threads this is not needed: the operating system shares the time out among them.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import gevent

AT_ONCE = 4
"""Requests that begin together at most: half a millisecond of small ones. A round costs 0.02 ms."""

ENOUGH = 0.001
"""Seconds after which no further request begins in a round: a large one uses up several turns."""

PAUSE = 0.002
"""Seconds until the next ones begin while an urgent one is under way: up to 2,000 per second."""


class Turns:
    """Lets a few requests begin in each round of this thread's event loop.

    Attributes:
        urgent: how many urgent requests are under way; the caller counts them.
    """

    def __init__(self) -> None:
        loop = gevent.get_hub().loop
        self.urgent = 0
        self._left = 0
        self._enough = 0.0
        self._waiting: deque[Any] = deque()
        self._each_round: Any = loop.check()
        # While this watcher is active, the loop does not wait for events.
        self._next_round: Any = loop.idle()
        self._later: Any = loop.timer(PAUSE)

    def wait(self) -> None:
        """Return when a request that is not urgent may begin.

        At once, unless enough have begun in this round.
        """
        if not self._each_round.active:
            self._begin_slice()
            self._each_round.start(self._begin_round)
        if self._left and not self._waiting and time.perf_counter() < self._enough:
            self._left -= 1
            return
        request = gevent.getcurrent()
        self._waiting.append(request)
        self._come_back()
        try:
            gevent.get_hub().switch()
        except BaseException:
            self._waiting.remove(request)  # its greenlet is killed while it waits
            raise

    def _begin_round(self) -> None:
        if self._waiting and self.urgent:
            self._come_back()
            return
        if not self._waiting and self._left == AT_ONCE:
            self._each_round.stop()  # none began in the last round
            return
        self._let_begin()

    def _let_begin(self) -> None:
        self._begin_slice()
        while self._waiting and self._left and time.perf_counter() < self._enough:
            self._left -= 1
            self._waiting.popleft().switch()
        self._come_back()

    def _begin_slice(self) -> None:
        self._left = AT_ONCE
        self._enough = time.perf_counter() + ENOUGH

    def _come_back(self) -> None:
        """Let the loop come back to the requests that wait: at once, or after a pause."""
        if self._waiting and not self.urgent:
            self._next_round.start(_nothing)
        else:
            self._next_round.stop()
        if self._waiting and self.urgent and not self._later.active:
            self._later.start(self._let_begin)


def _nothing() -> None:
    """Do nothing."""
