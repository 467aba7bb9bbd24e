"""Commit a purchase's transaction; retry while the result is unknown.

A connection error while statements run means that nothing was written: an open transaction cannot
commit itself. The same error at COMMIT leaves the result unknown: the server may have committed
before the connection failed (10 of 10 trials that cut off the reply).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

from django.db import (
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import PoolTimeout

from inventory.metrics import metrics
from inventory.outcomes import Busy, OutcomeUnknown, StaleToken

T = TypeVar("T")

RETRY_FOR = 2.0
"""Seconds during which a transaction that wrote nothing is retried: a newer lock holder was
faster, the connection was stale, or the database is restarting. Less than buyers will wait."""

PAUSE = 0.05
"""Seconds between attempts, for a database that is starting."""


class CommitUnknown(Exception):
    """The connection failed at the commit; only the data can tell the result."""


class LimitRaced(Exception):
    """A quota changed although the item is locked: its scope spans items. Nothing was written."""


@contextmanager
def committing() -> Iterator[None]:
    """``transaction.atomic()`` that distinguishes an unknown result from a failure.

    Raises:
        CommitUnknown: a connection error came at the commit.
        RuntimeError: called inside another transaction.
    """
    at_commit = False
    try:
        # Durable: inside another transaction this block would commit nothing, and buyers would
        # be told of grants that may still be rolled back.
        with transaction.atomic(durable=True):
            yield
            at_commit = True
    except (OperationalError, InterfaceError) as error:
        if at_commit:
            raise CommitUnknown(str(error)) from error
        raise


def commit_with_retry(attempt: Callable[[bool], T]) -> T:
    """Run a purchase's transaction; retry if nothing was written or the result is unknown.

    There is always a second attempt, however long the first took, unless the first timed out
    waiting for a connection.

    Args:
        attempt: the transaction, inside :func:`committing`. Its argument says whether to write
            with the fencing token. It must look its keys up before it writes, so that it is safe
            to repeat.

    Returns:
        The result of the first attempt that completed.

    Raises:
        Busy: no attempt completed in time; nothing was written.
        OutcomeUnknown: it may have been committed, and the database cannot be asked.
        Exception: any other exception of ``attempt``; nothing was written.
    """
    unknown = False
    fenced = True
    give_up = time.monotonic() + RETRY_FOR
    for tries in count(1):
        failure: Exception
        try:
            return attempt(fenced)
        except CommitUnknown as error:
            # The next attempt finds a committed purchase by its key. It locks the row first,
            # and so waits for a commit that is still in progress.
            metrics.count("commit_unknown")
            unknown, failure = True, error
            forget_connection()
        except (OperationalError, InterfaceError, InternalError) as error:
            if isinstance(error, InternalError) and not _is_standby(error):
                raise
            metrics.count("tried_again")
            failure = error
            forget_connection()
            time.sleep(PAUSE)
        except LimitRaced as error:
            metrics.count("limit_raced")
            failure = error
        except StaleToken as error:
            # A newer holder wrote while this one was paused. Nothing was written; go on without
            # the lock, which the newer holder has now.
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


def _is_standby(error: InternalError) -> bool:
    """Whether the server takes no writes: it was the primary until a moment ago."""
    return isinstance(error.__cause__, ReadOnlySqlTransaction)


def _why_busy(failure: Exception) -> str:
    if isinstance(failure, (LimitRaced, StaleToken)):
        return str(failure)
    if _out_of_connections(failure):
        return "no database connection became free"
    return "the database cannot be reached"


def _out_of_connections(error: Exception) -> bool:
    """Whether the pool had no free connection: this caller has already waited for one."""
    return isinstance(error.__cause__, PoolTimeout)


def lend_connections() -> None:
    """Return this thread's connections to the pool before it waits.

    If requests kept a connection while they wait for a batch, the pool could run dry, and the
    leader would wait for a connection that only its own batch could free.
    """
    # Only existing ones: naming the default connection would create it. `connections.all` does the
    # same at three times the cost, for every request.
    for alias in connections.settings:
        existing = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]
        if existing and existing.connection is not None and not existing.in_atomic_block:
            existing.close()


def forget_connection() -> None:
    """Drop this thread's connection; the next attempt gets a live one (`inventory.postgresql`)."""
    connection.close()
