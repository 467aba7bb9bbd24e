"""PostgreSQL locks that end with a connection or a transaction: advisory locks and a row lock.

Guarantees: mutual exclusion among clients of one primary; the lock is free as soon as the server
sees its holder's connection end; waiters queue in the server and do not poll; a fencing token from
a sequence, minted under the lock and on disk before use.

Limits: no lock survives a restart or a failover of the server, and then two clients may both
believe that they hold it until the first one asks (`Lease.check` does).  A connection that dies
silently holds its lock until TCP notices.  Each lease and each waiter needs one connection.
PgBouncer in transaction mode breaks `AdvisoryLock`; use `TransactionLock` there.

Choose `TransactionLock` if the work is in the same database: work and lock end in one commit, so
the lock is never free before the work is visible.  Choose `RowLock` if the row exists anyway,
`AdvisoryLock` otherwise.  For a lock that outlives its connection, see `database_lease`.

Sources: PostgreSQL manual, 13.3.5 "Advisory Locks" and 13.3.2 "Row-Level Locks".
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, LiteralString, cast

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from locking.backends._sessions import LASTS_AS_ITS_CONNECTION, SessionLease, SessionLock, Sessions
from locking.backends._waiting import Deadline
from locking.base import Lease

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = """
CREATE SEQUENCE IF NOT EXISTS lock_fence;
CREATE TABLE IF NOT EXISTS lock_row (name text PRIMARY KEY);
"""
"""The schema that the locks need; put it into a migration."""

# pg_locks shows a bigint key in two halves; objsubid 1 distinguishes it from a pair of integers.
_LOCKS: LiteralString = """
FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid), (SELECT %s::bigint AS key) AS k
WHERE l.locktype = 'advisory' AND l.objsubid = 1
  AND (l.classid::bigint << 32) | l.objid::bigint = k.key
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
OWNER = f"SELECT a.application_name {_LOCKS} AND l.granted"
WAITERS = f"SELECT count(*) {_LOCKS} AND NOT l.granted"
EVICT = f"SELECT pg_terminate_backend(l.pid) {_LOCKS} AND l.granted"
# PostgreSQL logs a sequence every 32 values and flushes the log only at that transaction's commit,
# so a crash could reset it below tokens in use.  The empty message makes our commit flush the log.
MINT = "SELECT nextval('lock_fence'), pg_logical_emit_message(true, 'lock_fence', '')"
SET = "SELECT set_config('application_name', %s, false), set_config('lock_timeout', %s, false)"

CONNECT_TIMEOUT = 2  # s; the shortest that libpq accepts
# ms; without it, a waiter that was killed stays in the queue until it gets the lock.
CLIENT_CHECK = 1000


def postgres_sessions(url: str) -> Sessions:
    """Return sessions on the server at `url`, configured for locks."""

    def connect() -> Connection:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT)
        connection.execute(f"SET client_connection_check_interval = {CLIENT_CHECK}")
        return connection

    place = psycopg.conninfo.conninfo_to_dict(url)
    address = f"{place.get('host')}:{place.get('port')}/{place.get('dbname')}"
    return Sessions(connect, lambda connection: connection.fileno(), address)


def advisory_key(name: str) -> int:
    """Return the 64-bit key of a name; two names with one key exclude each other."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"lock").digest()
    return int.from_bytes(digest, signed=True)


def scalar(connection: Connection, query: LiteralString, *arguments: object) -> Any:
    """Return the first column of the first row, or None."""
    row = connection.execute(query, arguments).fetchone()
    return None if row is None else row[0]


class ConnectionLease(SessionLease):
    """A lock that lasts as long as `connection`; work on that connection ends with the lock."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not self.released:
            with suppress(psycopg.Error):  # `release` then finds the connection broken, too
                self.connection.rollback()
        super().__exit__(kind, error, traceback)


class PostgresLock(SessionLock):
    """Base of the PostgreSQL locks; a subclass implements taking and releasing."""

    server = "PostgreSQL"
    failures = (psycopg.Error,)
    refusals = (errors.LockNotAvailable, errors.DeadlockDetected)

    def _acquire(self, deadline: Deadline) -> Lease:
        with self._lent(keep=True) as connection:
            left = deadline.left()
            limit = "0" if left == inf else str(max(1, round(left * 1000)))  # ms; 0: no limit
            # Operators see the name in pg_stat_activity.
            connection.execute(SET, (self.owner_name[:63], limit))
            self._take(connection)
            token = self._mint(connection)
            # An answer proves that the lock was still held when the token was minted, so no later
            # holder has a smaller one.  It also resets the time-out for the caller's statements.
            connection.execute("SELECT set_config('lock_timeout', '0', false)")
        return ConnectionLease(self, connection, token=token)

    def _mint(self, connection: Connection) -> int:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            return int(scalar(connection, MINT))
        # A rollback or a crash could undo our own transaction, even including the sequence.
        return int(self._ask(MINT))

    def _ask(self, query: LiteralString, *arguments: object) -> Any:
        with self._lent() as connection:
            return scalar(connection, query, *arguments)

    def _take(self, connection: Connection) -> None:
        raise NotImplementedError

    def _ping(self, connection: Connection) -> None:
        connection.execute("SELECT 1")

    def _unlock(self, connection: Connection) -> bool:
        """Commit; return False if the transaction had failed and was rolled back instead."""
        failed = connection.info.transaction_status == TransactionStatus.INERROR
        connection.commit()  # the server silently rolls a failed transaction back
        return not failed


class AdvisoryLock(PostgresLock):
    """`pg_advisory_lock`: held by the session, independent of transactions.

    Waiters get the lock in order of arrival.
    """

    kind = "advisory"

    capabilities = replace(LASTS_AS_ITS_CONNECTION, fair=True, counts_waiters=True)

    def _take(self, connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_lock(%s)", (advisory_key(self.name),))

    def _unlock(self, connection: Connection) -> bool:
        connection.rollback()  # ends a transaction that the caller left open; the lock stays
        return bool(scalar(connection, "SELECT pg_advisory_unlock(%s)", advisory_key(self.name)))

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        return cast("str | None", self._ask(OWNER, advisory_key(self.name)))

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        return int(self._ask(WAITERS, advisory_key(self.name)))

    def _evict(self) -> bool:
        """End the holder's connection; needs the holder's role or `pg_signal_backend`."""
        return bool(self._ask(EVICT, advisory_key(self.name)))


class TransactionLock(AdvisoryLock):
    """`pg_advisory_xact_lock`: held by the transaction open on `ConnectionLease.connection`.

    Do the work on that connection.  The end of the block commits the work and releases the lock
    together, or rolls back if the body raised.  `release` raises `LockLost` if the commit failed.
    """

    def _take(self, connection: Connection) -> None:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (advisory_key(self.name),))

    def _unlock(self, connection: Connection) -> bool:
        return PostgresLock._unlock(self, connection)


class RowLock(PostgresLock):
    """`SELECT … FOR UPDATE` on the name's row of `lock_row`; otherwise as `TransactionLock`.

    One row per name stays permanently, because a missing row locks nothing.  Not fair: a client
    that asks between a commit and the wake-up of the next waiter may get the lock first.
    """

    capabilities = replace(LASTS_AS_ITS_CONNECTION, knows_owner=False, force_release=False)

    def _take(self, connection: Connection) -> None:
        if scalar(connection, "SELECT 1 FROM lock_row WHERE name = %s", self.name) is None:
            connection.execute(
                "INSERT INTO lock_row VALUES (%s) ON CONFLICT DO NOTHING", (self.name,)
            )
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM lock_row WHERE name = %s FOR UPDATE", (self.name,))
