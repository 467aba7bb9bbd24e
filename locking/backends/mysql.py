"""MySQL and MariaDB lock: `GET_LOCK`, held by a connection.

Guarantees: mutual exclusion among clients of one server; the lock is free as soon as the server
sees its holder's connection end; waiters queue in the server in order of arrival; a fencing token
from a counter row, incremented on the connection that holds the lock.

Limits: no lock survives a restart or a failover.  Locks are not replicated, so they exclude nothing
on a Galera cluster or with two writable servers.  A connection that dies silently holds its lock
until TCP notices; a killed waiter leaves the queue within five seconds.  The server knows the
holder only by its connection number.  The lock is not part of a transaction: commit before the
release.  Tokens may repeat after a crash of a server whose `innodb_flush_log_at_trx_commit` is 0.
MySQL rounds the time-out to whole seconds, MariaDB does not.

Needs PyMySQL.  Source: MySQL manual, 14.14 "Locking Functions".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pymysql

from locking.backends._sessions import LASTS_AS_ITS_CONNECTION, SessionLease, SessionLock, Sessions
from locking.backends._waiting import Deadline, hashed_key
from locking.base import Lease
from locking.terms import LockTimeout

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS lock_fence (id tinyint PRIMARY KEY, value bigint NOT NULL)",
    "INSERT IGNORE INTO lock_fence VALUES (1, 0)",
)
"""The schema that the lock needs, statement by statement; put it into a migration."""

MINT = "UPDATE lock_fence SET value = LAST_INSERT_ID(value + 1) WHERE id = 1"

FOR_EVER = 86_400 * 365  # s; servers differ in what a negative time-out means
CONNECT_TIMEOUT = 2  # s


def mysql_sessions(**parameters: Any) -> Sessions:
    """Return sessions on a server; `parameters` are those of `pymysql.connect`."""
    options = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT, **parameters}
    address = options.get("unix_socket") or f"{options.get('host')}:{options.get('port')}"
    return Sessions(
        lambda: pymysql.connect(**options), lambda connection: connection._sock.fileno(), address
    )


def scalar(connection: Any, query: str, *arguments: object) -> Any:
    """Return the first column of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchone()[0]


class MySQLLock(SessionLock):
    """`GET_LOCK` for a name of any length and script."""

    server = "MySQL"
    failures = (pymysql.Error, OSError)  # PyMySQL raises both if a connection breaks
    capabilities = replace(LASTS_AS_ITS_CONNECTION, fair=True, knows_owner=False)

    def __init__(self, sessions: Sessions, name: str, **options: Any) -> None:
        super().__init__(sessions, name, **options)
        self.key = hashed_key("lock", name)

    def _acquire(self, deadline: Deadline) -> Lease:
        with self._lent(keep=True) as connection:
            seconds = min(deadline.left(), FOR_EVER)
            # 1: granted. 0: timed out. NULL: killed, or a deadlock with other locks.
            if scalar(connection, "SELECT GET_LOCK(%s, %s)", self.key, seconds) != 1:
                raise LockTimeout(f"not free within {deadline.elapsed():.3f} s")
            with connection.cursor() as cursor:
                cursor.execute(MINT)
                token = cursor.lastrowid
        return SessionLease(self, connection, token=token)

    def _ping(self, connection: Any) -> None:
        connection.ping(reconnect=False)

    def _unlock(self, connection: Any) -> bool:
        return bool(scalar(connection, "SELECT RELEASE_LOCK(%s)", self.key))

    def _evict(self) -> bool:
        """End the holder's connection; needs the same user, or `CONNECTION ADMIN`."""
        with self._lent() as connection, connection.cursor() as cursor:
            holder = scalar(connection, "SELECT IS_USED_LOCK(%s)", self.key)
            if holder is not None:
                cursor.execute("KILL %s", (holder,))
        return holder is not None
