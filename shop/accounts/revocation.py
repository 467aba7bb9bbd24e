"""Revoked tokens, known to each process without a query per request.

A process reads the generations that began while a token may still be valid, every few seconds, in
one query by one request. The query grows with the accounts that ended or got a new password within
a day, and not with all accounts: 10,000 of them take it 9 ms.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta

from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Now

from shop.accounts.models import TokenGeneration

log = logging.getLogger(__name__)

REFRESH = 10.0
"""Seconds after which a request reads the generations again, while the others go on."""

TOO_OLD = 50.0
"""Seconds after which what is known counts no more, and requests wait for the next reading: a token
is refused within a minute, or every token is."""

WAIT = 5.0
"""Seconds that a request waits for another one's reading."""

PAUSE = 1.0
"""Seconds without a reading after one that failed."""

MAX_TRANSACTION = timedelta(hours=1)
"""How much later than its beginning a generation may be committed, and so be visible."""


class Unreadable(Exception):
    """The generations could not be read for so long that no token can be trusted."""


class Generations:
    """The generations of users' tokens, as this process knows them.

    Args:
        lifetime: seconds that a token is valid; generations that began earlier do not matter.
    """

    def __init__(self, lifetime: float) -> None:
        self._memory = timedelta(seconds=lifetime) + MAX_TRANSACTION
        self._known: dict[int, int] = {}
        self._as_of = self._not_before = float("-inf")
        self._reading = threading.Lock()

    def of(self, buyer: int) -> int:
        """Return the generation that a buyer's tokens must have at least.

        Raises:
            Unreadable: the database has not answered for too long.
        """
        age = time.monotonic() - self._as_of
        if age > TOO_OLD:
            self._wait_for_reading()
        elif age > REFRESH and self._reading.acquire(blocking=False):
            self._read_and_release()
        return self._known.get(buyer, 0)

    def _wait_for_reading(self) -> None:
        # One of the waiting requests reads; the others then find what it read.
        if self._reading.acquire(timeout=WAIT):
            self._read_and_release()
        if time.monotonic() - self._as_of > TOO_OLD:
            raise Unreadable

    def _read_and_release(self) -> None:
        try:
            now = time.monotonic()
            if now - self._as_of > REFRESH and now >= self._not_before:
                self._known = _read(self._memory)
                self._as_of = now
        except (DatabaseError, InterfaceError) as error:
            self._not_before = time.monotonic() + PAUSE
            log.warning("the revoked tokens could not be read: %s", error)
        finally:
            self._reading.release()


def _read(memory: timedelta) -> dict[int, int]:
    recent = TokenGeneration.objects.filter(began__gt=Now() - memory)
    return dict(recent.values_list("buyer", "number"))
