"""Commit a purchase's transaction, and try again until it is known what became of it.

An error from the connection while statements run means that nothing was written: an open
transaction cannot commit itself. The same error at COMMIT means *unknown*: the server may have
committed before the connection went (seen in 10 of 10 trials when the reply was cut off).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection, connections, transaction
from psycopg_pool import PoolTimeout

from inventory.metrics import metrics
from inventory.outcomes import Busy, OutcomeUnknown, StaleToken

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds in which a transaction is tried again when nothing was written: the lock was overtaken,
the connection was an old one, the database is just coming back. Less than the buyers will wait."""

PAUSE = 0.05
"""Seconds between two tries, for a database that is starting."""


class CommitUnknown(Exception):
    """The connection failed at the commit; only the data can tell what happened."""


class LimitRaced(Exception):
    """A quota moved although the item is locked: its scope spans items. Nothing was written."""


@contextmanager
def committing() -> Iterator[None]:
    """``transaction.atomic()`` that tells an unknown outcome from a failure.

    Raises:
        CommitUnknown: instead of a connection error, if it came at the commit.
        RuntimeError: it runs inside another transaction.
    """
    at_commit = False
    try:
        # Durable: inside another transaction nothing would be committed when this one ends, and
        # buyers would be told of what may yet be rolled back.
        with transaction.atomic(durable=True):
            yield
            at_commit = True
    except (OperationalError, InterfaceError) as error:
        if at_commit:
            raise CommitUnknown(str(error)) from error
        raise


def commit_with_retry(attempt: Callable[[bool], T]) -> T:
    """Make a purchase's transaction; try again if nothing was written, or if that is unknown.

    There is always a second attempt, however long the first one took, unless the first has
    already waited in vain for a connection.

    Args:
        attempt: the transaction, inside :func:`committing`. It is told whether its fencing token
            still counts, and must be safe to repeat: it looks for its keys before it writes.

    Returns:
        What the first attempt returned that came to an end.

    Raises:
        Busy: no attempt came to an end in time; nothing was written.
        OutcomeUnknown: it may have been committed, and the database cannot be asked.
        Exception: whatever else ``attempt`` raised; nothing was written.
    """
    unknown = False
    fenced = True
    give_up = time.monotonic() + PATIENCE
    for tries in count(1):
        failure: Exception
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
            metrics.count("limit_raced")
            failure = error
        except StaleToken as error:
            # Overtaken while paused. Nothing was written; on without the lock, for the queue
            # behind it belongs to somebody else by now.
            metrics.count("stale_token")
            failure, fenced = error, False
        except Busy as error:
            if not unknown:
                raise
            failure = error
            break
        if time.monotonic() >= give_up and (tries > 1 or _out_of_connections(failure)):
            break
    if unknown:
        raise OutcomeUnknown("the database could not be asked again") from failure
    raise Busy(_why_busy(failure)) from failure


def _why_busy(failure: Exception) -> str:
    if isinstance(failure, (LimitRaced, StaleToken)):
        return str(failure)
    if _out_of_connections(failure):
        return "no database connection became free"
    return "the database cannot be reached"


def _out_of_connections(error: Exception) -> bool:
    """Whether the pool had no connection left: this caller has waited for one already."""
    return isinstance(error.__cause__, PoolTimeout)


def lend_connections() -> None:
    """Give this thread's connections back to the pool, for a wait.

    Were those who wait for a batch to keep theirs, the pool could run dry and the one who leads
    would wait for a connection that only its batch could free.
    """
    # Only those that exist: merely to name the default one would make it.
    for existing in connections.all(initialized_only=True):
        if existing.connection is not None and not existing.in_atomic_block:
            existing.close()


def forget_connection() -> None:
    """Drop this thread's connection; the next try gets a live one (see `inventory.postgresql`)."""
    connection.close()
