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

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql

from locking.backends._sessions import Sessions
from locking.backends._waiting import Deadline, WaitingLock
from locking.base import Lease
from locking.terms import Capabilities, LockTimeout, LockUnavailable

logger = logging.getLogger(__name__)

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS lock_fence (id tinyint PRIMARY KEY, value bigint NOT NULL)",
    "INSERT IGNORE INTO lock_fence VALUES (1, 0)",
)
"""The schema that the lock needs, statement by statement; put it into a migration."""

MINT = "UPDATE lock_fence SET value = LAST_INSERT_ID(value + 1) WHERE id = 1"

FOR_EVER = 86_400 * 365  # s; servers differ in what a negative time-out means
CONNECT_TIMEOUT = 2  # s

# PyMySQL raises OSError as well as its own errors if a connection breaks.
FAILURES = (pymysql.Error, OSError)


def mysql_sessions(**parameters: Any) -> Sessions[Any]:
    """Return sessions on a server; `parameters` are those of `pymysql.connect`."""
    options = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT, **parameters}
    address = options.get("unix_socket") or f"{options.get('host')}:{options.get('port')}"
    return Sessions(
        lambda: pymysql.connect(**options), lambda connection: connection._sock.fileno(), address
    )


def lock_name(name: str) -> str:
    """Return a valid lock name for a name of any length, case and script."""
    return f"lock:{hashlib.blake2b(name.encode(), digest_size=20).hexdigest()}"


class SessionLease(Lease):
    """A user-level lock that lasts as long as its connection."""

    __slots__ = ("_connection", "_lock")

    def __init__(self, lock: MySQLLock, connection: Any, token: int) -> None:
        """Create the lease of the lock that `connection` holds."""
        super().__init__(lock.name, token=token, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._connection = connection

    def check(self) -> None:
        """Ask the server whether the connection, and so the lock, still exists."""
        super().check()
        try:
            self._connection.ping(reconnect=False)
        except FAILURES as error:
            self._broken(error)
            super().check()

    def _release(self) -> bool:
        sessions = self._lock.sessions
        try:
            let_go = bool(scalar(self._connection, "SELECT RELEASE_LOCK(%s)", self._lock.key))
        except FAILURES as error:
            sessions.discard(self._connection)
            self._broken(error)
            return False
        sessions.give_back(self._connection)
        return let_go

    def _broken(self, error: Exception) -> None:
        self.mark_lost(f"its connection failed: {error}")


def scalar(connection: Any, query: str, *arguments: object) -> Any:
    """Return the first column of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchone()[0]


class MySQLLock(WaitingLock):
    """`GET_LOCK` for a name of any length and script."""

    capabilities = Capabilities(
        fence=True,
        fair=True,
        renewal=True,
        extend=False,
        crash_release="connection",
        knows_owner=False,
    )

    def __init__(self, sessions: Sessions[Any], name: str, **options: Any) -> None:
        """Make a handle of the lock `name` on the server of `sessions`."""
        super().__init__(name, **options)
        self.sessions = sessions
        self._address = sessions.address
        self.key = lock_name(name)

    def _acquire(self, deadline: Deadline) -> Lease:
        with self._connected() as connection:
            seconds = min(deadline.left(), FOR_EVER)
            # 1: granted. 0: timed out. NULL: killed, or a deadlock with other locks.
            if scalar(connection, "SELECT GET_LOCK(%s, %s)", self.key, seconds) != 1:
                raise LockTimeout(f"not free within {deadline.elapsed():.3f} s")
            with connection.cursor() as cursor:
                cursor.execute(MINT)
                token = cursor.lastrowid
        return SessionLease(self, connection, token)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Lend a connection; after an error close it, and with it any lock it may hold."""
        try:
            connection = self.sessions.take()
        except FAILURES as error:
            raise LockUnavailable(f"MySQL: {error}") from error
        try:
            yield connection
        except LockTimeout:
            self.sessions.give_back(connection)
            raise
        except FAILURES as error:
            self.sessions.discard(connection)
            self.sessions.close()  # a restart of the server, for example, breaks all of them
            raise LockUnavailable(f"MySQL: {error}") from error
        except BaseException:  # KeyboardInterrupt while waiting: the lock may have been granted
            self.sessions.discard(connection)
            raise

    def _holder(self) -> int | None:
        with self._connected() as connection:
            holder = scalar(connection, "SELECT IS_USED_LOCK(%s)", self.key)
        self.sessions.give_back(connection)
        return None if holder is None else int(holder)

    def force_release(self, reason: str) -> bool:
        """End the holder's connection; needs the same user, or `CONNECTION ADMIN`."""
        holder = self._holder()
        if holder is None:
            return False
        logger.warning("revoking the lock %r from connection %d: %s", self.name, holder, reason)
        with self._connected() as connection, connection.cursor() as cursor:
            cursor.execute("KILL %s", (holder,))
        self.sessions.give_back(connection)
        return True
