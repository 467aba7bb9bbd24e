"""How far this process's clock is from the database's, for the metric `shop_clock_ahead_seconds`.

No sale depends on it: windows and deadlines are judged by the database's clock. But tokens,
cookies, certificates and log lines go by the machine's, so its operator should know when it is
wrong.
"""

from __future__ import annotations

import time
from datetime import datetime

from django.db import Error, connection

from shop.operating import metrics

EVERY = 10.0
"""Seconds between two questions to the database that only ask for its clock."""


class Clock:
    """Compares this process's clock with the database's.

    Attributes:
        ahead: seconds by which this process's clock is at least ahead of the database's, or
            negative, behind it; None before the first comparison.
    """

    def __init__(self) -> None:
        self.ahead: float | None = None
        self._next = 0.0

    def compare(self, asked: float, database: datetime, answered: float) -> None:
        """Compare a time of the database's clock with this process's.

        Args:
            asked: when the database was asked, by `time.time`.
            database: what it answered.
            answered: when the answer was read, by `time.time`.
        """
        # The database looked at its clock at some moment between the two. A slow answer must not
        # look like a wrong clock, so the smallest difference that explains it counts.
        least = asked - database.timestamp()
        most = answered - database.timestamp()
        self.ahead = least if least > 0 else min(most, 0.0)
        metrics.CLOCK_AHEAD.set(self.ahead)

    def ask(self) -> None:
        """Ask the database for its time, at most every `EVERY` seconds; needs a connection."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        asked = time.time()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT clock_timestamp()")
                (database,) = cursor.fetchone()
        except Error:
            return  # the next query of a request reports that the database does not answer
        self.compare(asked, database, time.time())


clock = Clock()
"""This process's."""
