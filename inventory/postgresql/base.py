"""The database engine: Django's, with a check that a connection lives, a bound on the wait for a
commit, and shares of its pool. It also notes whether the current request may have changed anything
yet.

Shares keep one kind of request from using up all connections. A request that belongs to a share
borrows from that share's own pool, whose size is a part of that of Django's pool, so the other
shares always find theirs free. A request that belongs to none, such as a task or a command, borrows
from Django's pool, which is only opened then.

When a PostgreSQL server dies or ends a session, it closes the socket, but the pool keeps the
connection until a request fails on it: up to `max_size` failed requests per process. Django's
`CONN_HEALTH_CHECKS` costs a round trip per checkout, and pauses for a second or more after the
second dead connection. Reading the socket costs microseconds.

A commit on a primary with synchronous standbys returns when a standby has it. If none comes, it
waits forever: `statement_timeout` ends before that wait begins. The server's own ways to end it,
`pg_cancel_backend` and `pg_terminate_backend`, make the transaction visible although no standby has
it, so that a reader may see an order that the next fail-over loses. So the client gives up instead:
it closes the connection, and the transaction stays undecided, with its locks, until a standby has
it or the primary is replaced. Its outcome is unknown, and a retry with the same key finds it.

A session may be alive but useless: it was opened while its server took no writes, during a
fail-over behind a fixed address or maintenance, or it inherited a bad setting of the database or
the role. Such a session would fail every request until its age ends it. So a connection asks for a
server that takes writes (`target_session_attrs`), a session that has become read-only is discarded
when it is next taken from the pool (the server reports that unasked), and so is one on which a
statement failed, other than by its data, a constraint or a condition of its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import psycopg
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql import base
from django.utils.functional import cached_property
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from inventory import metrics

OPTION = "commit_within"
"""In a database's OPTIONS: seconds to wait for the answer to a commit; 0: as long as it takes."""


FOR_WRITES = "read-write"
"""libpq's name for sessions that take writes, in the parameter `target_session_attrs`."""


class _Driver:
    """psycopg, as Django looks its errors up.

    psycopg takes a read-only server's refusal of a write for an internal error. It is an outage,
    like a server that is starting.
    """

    OperationalError = (psycopg.OperationalError, ReadOnlySqlTransaction)

    def __getattr__(self, name: str) -> Any:
        return getattr(psycopg, name)


PSYCOPGS_MIN_SIZE = 4
"""Connections that a pool keeps where the settings do not say how many."""

PSYCOPGS_TIMEOUT = 30.0
"""Seconds that a request waits for a connection where the settings do not say."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the pool.

    Attributes:
        name: of the share; unique.
        part: of the pool's connections, between 0 and 1.
        patience: how many times the pool's time-out a request waits for a connection.
    """

    name: str
    part: float
    patience: float = 1.0

    def options(self, pool: Any) -> dict[str, Any]:
        """Return the share's options, from those of the whole pool in Django's settings.

        At least one connection, so a pool should have at least one for each of the shares.
        """
        options = dict(pool) if isinstance(pool, dict) else {}
        least = options.get("min_size", PSYCOPGS_MIN_SIZE)
        most = max(1, math.floor((options.get("max_size") or least) * self.part))
        return {
            **options,
            "min_size": min(math.ceil(least * self.part), most),
            "max_size": most,
            "timeout": options.get("timeout", PSYCOPGS_TIMEOUT) * self.patience,
        }


borrowing_from: ContextVar[Share | None] = ContextVar("share", default=None)
"""The share from which this thread borrows its connections; None: from the whole pool.

It is not set while the thread has a connection: the thread would wait for a second one while it
holds the first."""


class DatabaseWrapper(base.DatabaseWrapper):
    """A Django connection that is never a dead one of the pool, and waits for no commit forever.

    It borrows from its thread's share of the pool. Unless `target_session_attrs` says otherwise, in
    the database's OPTIONS or in libpq's variable `PGTARGETSESSIONATTRS`, its server takes writes.
    """

    Database = _Driver()

    def get_connection_params(self) -> dict[str, Any]:
        """Return what psycopg needs, without the option of this engine."""
        parameters: dict[str, Any] = super().get_connection_params()
        parameters.pop(OPTION, None)
        if "PGTARGETSESSIONATTRS" not in os.environ:
            parameters.setdefault("target_session_attrs", FOR_WRITES)
        return parameters

    def _commit(self) -> None:
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            return  # a message has committed already
        may_have_effects.set(True)
        with commit_bounded(self):
            super()._commit()  # type: ignore[misc]  # missing in django-stubs

    _connection_pools: ClassVar[dict[str, ConnectionPool[Any]]]

    @cached_property  # until the next connection: Django asks for it eight times for each
    def pool(self) -> ConnectionPool[Any] | None:
        """The pool from which this thread borrows; None if there is none."""
        share = borrowing_from.get()
        if share is None or not self.settings_dict["OPTIONS"].get("pool"):
            return self._djangos_pool()
        key = f"{self.alias}/{share.name}"
        return self._connection_pools.get(key) or self._open(key, share)

    def pools(self) -> list[ConnectionPool[Any]]:
        """Return all pools of this process for this database: the shares', and Django's own."""
        parts = f"{self.alias}/"
        return [
            pool
            for key, pool in list(self._connection_pools.items())
            if key == self.alias or key.startswith(parts)
        ]

    def close_pool(self) -> None:
        """Close all pools of this process for this database."""
        ours = self.pools()
        for key, pool in list(self._connection_pools.items()):
            if pool in ours:
                del self._connection_pools[key]
                pool.close()
        self.__dict__.pop("pool", None)

    def _djangos_pool(self) -> ConnectionPool[Any] | None:
        pool: ConnectionPool[Any] | None = super().pool  # type: ignore[misc]  # not in the stubs
        return pool

    def _open(self, key: str, share: Share) -> ConnectionPool[Any] | None:
        # Django makes one pool per alias, from the settings of the connection that asks for it.
        part = self.copy(key)
        options = part.settings_dict["OPTIONS"]
        options["pool"] = share.options(options["pool"])
        return part._djangos_pool()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection from the pool; discard dead ones.

        Raises:
            psycopg.OperationalError: no connection can be made, or none became free in time.
        """
        self.__dict__.pop("pool", None)
        pool = self.pool
        connected.set(True)
        for_writes = conn_params.get("target_session_attrs") == FOR_WRITES
        connection = super().get_new_connection(conn_params)
        while pool and not is_usable(connection, for_writes=for_writes):
            metrics.CONNECTIONS_DEAD.inc()
            connection.close()  # so that the pool replaces it
            pool.putconn(connection)
            connection = super().get_new_connection(conn_params)
        return connection

    def is_usable(self) -> bool:
        """Return False after an error for which the session may be to blame; Django then closes it.

        Django has no other use for sessions after errors: it would find that this one answers.
        """
        return not self.errors_occurred and super().is_usable()

    def _close(self) -> None:
        # Django notes all errors but those of data and constraints.
        if self.errors_occurred and self.connection is not None and self.pool:
            metrics.CONNECTIONS_DISCARDED.inc()
            self.connection.close()  # so that the pool replaces it
        super()._close()  # type: ignore[misc]  # missing in django-stubs


def is_usable(connection: psycopg.Connection[Any], *, for_writes: bool) -> bool:
    """Return whether an idle connection is alive and takes writes; asks nothing and never waits.

    PostgreSQL reports a session that is read-only since version 14, when it begins and whenever
    that changes. One of an older server counts as taking writes.

    Args:
        connection: psycopg's.
        for_writes: whether a read-only session counts as unusable.
    """
    try:
        # The first read may return only the server's last message; the second finds the end.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    reported = connection.pgconn.parameter_status
    read_only = (reported(b"in_hot_standby"), reported(b"default_transaction_read_only"))
    return not (for_writes and b"on" in read_only)


@contextmanager
def commit_bounded(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """Bound the wait for each answer of the server inside the block, which commits.

    Args:
        wrapper: Django's connection; its option says how long.

    Raises:
        OperationalError: the answer did not come in time; the connection is closed.
    """
    connection = wrapper.connection
    seconds = wrapper.settings_dict["OPTIONS"].get(OPTION)
    if not seconds or connection is None:
        yield
        return
    # On the instance: it hides the method from the cursors that wait for their connection.
    connection.wait = partial(type(connection).wait, connection, timeout=seconds)
    try:
        yield
    except Exception as error:
        if connection.info.transaction_status == TransactionStatus.ACTIVE:
            # The answer may still come, and would be read as the answer to the next statement.
            connection.close()
            text = f"no answer to the commit within {seconds:g} s"
            raise OperationalError(text) from error
        raise
    finally:
        del connection.wait


def plain_cursor() -> psycopg.ClientCursor:
    """Return a plain cursor of the current connection, which accepts several statements at once.

    They are sent together and run in order, each with a snapshot of its own. Django's cursor
    does the same at several times the cost.
    """
    connection.ensure_connection()
    return psycopg.ClientCursor(connection.connection)


connected: ContextVar[bool] = ContextVar("connected", default=False)
"""Whether this thread has connected since it last returned its connections to the pool."""


def lend_connections() -> None:
    """Return this thread's connections to the pool before it waits.

    If requests kept a connection while they wait for a batch, the pool could run dry, and the
    leader would wait for a connection that only its own batch could free.
    """
    if not connected.get():
        return  # the usual case, which should not pay for a look at all connections
    connected.set(False)
    for existing in connections.all(initialized_only=True):
        if existing.connection is None:
            continue
        if existing.in_atomic_block:
            connected.set(True)
        else:
            existing.close()


may_have_effects: ContextVar[bool] = ContextVar("may_have_effects", default=False)
"""Whether the request may have changed something: it has sent a COMMIT, or has asked another system
to do something.

A request that fails before its first COMMIT has changed nothing: an open transaction cannot commit
itself. It may be refused and sent again. After that, only the data can tell what became of it.
"""
