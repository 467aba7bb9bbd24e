"""Refuse requests that the database could not serve: counted, and logged without tracebacks.

In a crowd, hundreds of requests may get no connection in time, and in an outage all of them. That
is expected: a counter has their number, and the log gets a line every few seconds. The tracebacks
of all would take a good part of the process's time when it has the least.
"""

from __future__ import annotations

import logging
import threading
import time

from inventory.postgresql.base import may_have_effects
from shop.operating import metrics
from shop.refusals import Refusal

log = logging.getLogger(__name__)

LINE_EVERY = 10.0
"""Seconds between two lines about requests that were refused before they changed anything."""


class Lines:
    """The log's lines about requests that were refused before they changed anything."""

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self._unsaid = 0
        self._next = 0.0

    def add(self, reason: str) -> None:
        """Count a request, and write a line unless there was one a moment ago."""
        with self._counting:
            self._unsaid += 1
            now = time.monotonic()
            if now < self._next:
                return
            refused, self._unsaid, self._next = self._unsaid, 0, now + LINE_EVERY
        text = "the database did not serve %d requests since the last such line; the last one: %s"
        log.warning(text, refused, reason)


lines = Lines()


def refusal(error: Exception, *, reads: bool = False) -> Refusal:
    """Return the refusal of a request after an error of the database.

    Args:
        error: no connection became free, or the connection or the server failed.
        reads: the request changes nothing.

    Returns:
        `busy` if nothing was done, or `outcome_unknown` if the request had sent a COMMIT or called
        the payment provider before.
    """
    reason = str(error).partition("\n")[0]
    code = "outcome_unknown" if may_have_effects.get() and not reads else "busy"
    metrics.DATABASE_FAILED.labels(code).inc()
    if code == "busy":
        lines.add(reason)
    else:
        # Each of these may be worth a look; the line has the request's id and order.
        log.error("the outcome of a request is unknown: %s", reason)
    return Refusal(code)
