"""A transaction that is tried until it is known what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from inventory.metrics import metrics
from inventory.outcomes import Busy, OutcomeUnknown, StaleToken
from inventory.selling.batch import LimitRaced
from inventory.selling.commit import CommitUnknown, forget_connection

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds in which it is tried again when nothing was written: the lock was overtaken, the
connection was an old one, the database is just coming back. Less than the buyers will wait."""

PAUSE = 0.05
"""Seconds between two tries, for a database that is starting."""


def commit_with_retry(attempt: Callable[[bool], T]) -> T:
    """Make a purchase's transaction, again if nothing was written, and find out when that is
    not known.

    Args:
        attempt: the transaction, inside :func:`committing`. It is told whether its fencing token
            still counts, and must be safe to repeat: it looks for its keys before it writes.

    Returns:
        What the first attempt returned that came to an end.

    Raises:
        Busy: the database cannot be reached; nothing was written.
        OutcomeUnknown: it may have been committed, and the database cannot be asked.
        Exception: whatever else ``attempt`` raised; nothing was written.
    """
    unknown = False
    fenced = True
    failure: Exception | None = None
    give_up = time.monotonic() + PATIENCE
    while failure is None or time.monotonic() < give_up:
        try:
            return attempt(fenced)
        except CommitUnknown as error:
            # Trying again is the look-up: what was committed is known by its key now. It
            # starts with the row's lock, so it waits for a commit that is still under way.
            metrics.count("commit_unknown")
            unknown, failure = True, error
            forget_connection()
        except (OperationalError, InterfaceError) as error:
            metrics.count("tried_again")
            failure = error
            forget_connection()
            time.sleep(PAUSE)
        except LimitRaced as error:
            failure = error
        except StaleToken as error:
            # Overtaken while paused. Nothing was written; on without the lock, for the queue
            # behind it belongs to somebody else by now.
            metrics.count("stale_token")
            failure, fenced = error, False
    if unknown:
        raise OutcomeUnknown("the database could not be asked again") from failure
    raise Busy("the database cannot be reached") from failure
