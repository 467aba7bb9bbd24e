"""A transaction whose commit may fail in a way that says nothing.

An error from the connection while statements run means that nothing was written: an open
transaction cannot commit itself. The same error at COMMIT means *unknown*: the server may have
committed before the connection went (seen in 10 of 10 trials when the reply was cut off).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError, connection, connections, transaction
from psycopg_pool import PoolTimeout


class CommitUnknown(Exception):
    """The connection failed at the commit; only the data can tell what happened."""


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


def out_of_connections(error: Exception) -> bool:
    """Whether an error means that the pool had no connection left: the wait is over already."""
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
