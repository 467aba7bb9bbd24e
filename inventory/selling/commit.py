"""Commit a transaction that moves stock; retry a purchase while its result is unknown.

A connection error while statements run means that nothing was written: an open transaction cannot
commit itself. The same error at COMMIT leaves the result unknown: the server may have committed
before the connection failed (10 of 10 trials that cut off the reply).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import starmap
from typing import Any, TypeVar

import psycopg
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from inventory import metrics
from inventory.outcomes import Busy, OutcomeUnknown, StaleToken
from inventory.postgresql.base import commit_bounded, may_have_effects

T = TypeVar("T")

REFUSED = "IN001"
"""The SQLSTATE by which the SQL function `inventory_require` ends a message before its COMMIT."""

ONE_PER_KEY = "inventory_reservation_one_per_key"
"""The constraint on a buyer's keys."""

RETRY_FOR = 2.0
"""Seconds during which a transaction that wrote nothing is retried, because a newer lock holder was
faster, the connection was stale, or the database is restarting. Buyers wait longer than this."""

PAUSE = 0.05
"""Seconds between attempts, for a database that is starting."""


class CommitUnknown(OperationalError):
    """The connection failed at the commit; only the data can tell the result.

    Attributes:
        locked: whether the transaction had locked the rows before, so that the next transaction
            that locks them sees the result. Otherwise the message with the COMMIT may still be on
            its way to the server.
    """

    def __init__(self, reason: str, *, locked: bool = True) -> None:
        super().__init__(reason)
        self.locked = locked


class ConditionFailed(Exception):
    """A condition of the message that would have committed does not hold. Nothing was written."""


@contextmanager
def committing() -> Iterator[None]:
    """`transaction.atomic()` that distinguishes an unknown result from a failure.

    Raises:
        CommitUnknown: a connection error came at the commit.
        RuntimeError: called inside another transaction.
    """
    at_commit, unknown = False, None
    try:
        # Durable: inside another transaction this block would commit nothing, and buyers would
        # be answered grants that may still be rolled back.
        with transaction.atomic(durable=True):
            try:
                yield
            except CommitUnknown as error:
                unknown = error
                raise
            at_commit = True
    except (OperationalError, InterfaceError) as error:
        if at_commit:
            raise CommitUnknown(str(error)) from error
        # Django connects again to end the transaction, and may fail at that.
        if unknown is not None and error is not unknown:
            raise unknown from error
        raise


def execute_and_commit(
    statements: Iterable[tuple[Any, Mapping[str, Any]]], *, locked: bool = True
) -> psycopg.ClientCursor:
    """Execute statements and COMMIT in one message, inside a block of `transaction.atomic()`.

    The rows that they lock are locked for as long as the server needs, and for no round trip.

    Args:
        statements: each with its parameters.
        locked: whether the rows that others wait for were locked before.

    Returns:
        The cursor at the result of the first statement.

    Raises:
        ConditionFailed: a call of `inventory_require` failed, or another transaction has used a
            purchase's key; the caller must roll back.
        OperationalError: the server refused a statement; the caller must roll back.
        CommitUnknown: the connection failed.
    """
    cursor = psycopg.ClientCursor(connection.connection)
    message = [*starmap(cursor.mogrify, statements)]
    if not connection.savepoint_ids:  # else a test's transaction is around it, which never commits
        message.append("COMMIT")
    try:
        with connection.wrap_database_errors, commit_bounded(connection):
            result = cursor.execute(";".join(message).encode())
    except (OperationalError, InterfaceError) as error:
        if connection.connection.info.transaction_status == TransactionStatus.INERROR:
            raise  # the server answered, and has skipped the rest of the message with its COMMIT
        may_have_effects.set(True)
        raise CommitUnknown(str(error), locked=locked) from error
    except DatabaseError as error:
        _raise_condition(error)
        raise
    may_have_effects.set(True)
    return result


def execute_together(
    statements: Iterable[tuple[Any, Mapping[str, Any]]],
) -> psycopg.ClientCursor:
    """Execute statements in one message of the caller's transaction, without a COMMIT.

    Raises:
        ConditionFailed: as in `execute_and_commit`; the caller must roll back.
    """
    cursor = psycopg.ClientCursor(connection.connection)
    message = ";".join(starmap(cursor.mogrify, statements))
    try:
        with connection.wrap_database_errors:
            return cursor.execute(message.encode())
    except DatabaseError as error:
        _raise_condition(error)
        raise


def _raise_condition(error: DatabaseError) -> None:
    """Raise `ConditionFailed` if a statement failed because a condition in it does not hold."""
    cause = error.__cause__
    if isinstance(cause, psycopg.Error) and (
        cause.sqlstate == REFUSED or cause.diag.constraint_name == ONE_PER_KEY
    ):
        connection.errors_occurred = False  # the session may serve the next request
        raise ConditionFailed("another purchase was faster") from error


class Attempts:
    """Attempts to make a purchase's transaction, until one completes.

    Each must look its keys up before it writes, so that it is safe to repeat::

        attempts = Attempts()
        levels = attempts.until_done(lambda: sell(tickets, locked=attempts.locked))

    Attributes:
        fenced: whether to write with the fencing token.
        locked: whether to lock the rows before they are read: in all attempts but the first.
        in_doubt: whether the message of an earlier attempt may still be on its way. If it arrives,
            the keys keep a granted purchase from being written twice, but nothing keeps a refused
            one from being written.
    """

    def __init__(self) -> None:
        self.fenced = True
        self.locked = self.in_doubt = False
        self._unknown = False
        self._give_up = time.monotonic() + RETRY_FOR

    def until_done(self, attempt: Callable[[], T]) -> T:
        """Return what the first attempt returns that completes.

        There is always a second attempt, however long the first took, unless the first timed out
        waiting for a connection.

        Raises:
            Busy: no attempt completed in time, and nothing was written.
            OutcomeUnknown: an earlier attempt may have been committed and the database cannot be
                asked, or any exception has ended an attempt `in_doubt`: a refusal would be final,
                and the earlier message may still arrive.
            Exception: any other exception of an attempt; nothing was written then.
        """
        while True:
            try:
                return attempt()
            except Exception as error:
                if not self._should_retry(error):
                    raise
            self.locked = True

    def _should_retry(self, error: Exception) -> bool:
        """Return whether to make another attempt; False if the error itself is the answer.

        Raises:
            Busy: there is no time for another attempt, and nothing was written.
            OutcomeUnknown: there is none, and an earlier attempt may have been committed.
        """
        if not (isinstance(error, Busy) and self._unknown):
            if not self._prepare_retry(error):
                if self.in_doubt:
                    raise OutcomeUnknown("an earlier attempt may still arrive") from error
                return False
            if self._in_time(error):
                return True
        if self._unknown:
            raise OutcomeUnknown("the database could not be asked again") from error
        raise Busy(_why_busy(error)) from error

    def _in_time(self, error: Exception) -> bool:
        is_first = not self.locked and not _out_of_connections(error)
        return is_first or time.monotonic() < self._give_up

    def _prepare_retry(self, error: Exception) -> bool:
        """Prepare another attempt if the error allows one; return whether it does."""
        if isinstance(error, CommitUnknown):
            # The next attempt finds a committed purchase by its key. It locks the row first,
            # and so waits for a commit that is still in progress.
            metrics.COMMIT_UNKNOWN.inc()
            self._unknown = True
            self.in_doubt |= not error.locked
            forget_connection()
        elif isinstance(error, (OperationalError, InterfaceError)):
            metrics.TRIED_AGAIN.inc()
            forget_connection()
            time.sleep(PAUSE)
        elif isinstance(error, ConditionFailed):
            metrics.LIMIT_RACED.inc()
        elif isinstance(error, StaleToken):
            # A newer holder of the lock wrote while this one was paused. Nothing was written; the
            # next attempt does without the lock, which the newer holder has now.
            metrics.STALE_TOKEN.inc()
            self.fenced = False
        else:
            return False
        return True


def _why_busy(error: Exception) -> str:
    if isinstance(error, (ConditionFailed, StaleToken)):
        return str(error)
    if _out_of_connections(error):
        return "no database connection became free"
    return "the database cannot be reached"


def _out_of_connections(error: Exception) -> bool:
    """Return whether the pool had no free connection: this caller has already waited for one."""
    return isinstance(error.__cause__, PoolTimeout)


def forget_connection() -> None:
    """Drop this thread's session, which has failed; the next attempt gets another one."""
    if connection.connection is not None:
        connection.connection.close()  # so that no pool lends it again
    connection.close()
