"""MySQL and MariaDB lock: `GET_LOCK`, held by a connection.

Guaranteed: mutual exclusion among clients of one server; the lock is free as soon as the server
sees its holder's connection end; waiters queue in the server in the order in which they came; a
fencing token from a counter row, raised on the connection that holds the lock.

Not guaranteed: nothing outlives a restart or a failover, and the lock is not replicated, so it is
none on a Galera cluster or with two writable servers; a connection that dies silently holds its
lock until TCP notices; a client killed while it waited leaves the queue within five seconds, at
which interval the server looks; who holds it is known by the number of its connection only.  The
lock is not part of a transaction: commit before releasing.  Tokens may repeat after a crash of a
server whose `innodb_flush_log_at_trx_commit` is 0.  MySQL rounds the time-out to whole seconds,
MariaDB does not.

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
from locking.base import Capabilities, Lease, LockTimeout, LockUnavailable, LockUnsupported

logger = logging.getLogger(__name__)

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS lock_fence (id tinyint PRIMARY KEY, value bigint NOT NULL)",
    "INSERT IGNORE INTO lock_fence VALUES (1, 0)",
)
"""What the lock needs, statement by statement; belongs into a migration."""

MINT = "UPDATE lock_fence SET value = LAST_INSERT_ID(value + 1) WHERE id = 1"

LONGEST_NAME = 64  # characters, of which the server compares only letters without case
FOR_EVER = 86_400 * 365  # s; servers differ in what a negative time-out means
CONNECT_TIMEOUT = 2  # s

# PyMySQL raises OSError and ValueError-like errors of its own where a connection breaks midway.
FAILURES = (pymysql.Error, OSError)


def mysql_sessions(**parameters: Any) -> Sessions[Any]:
    """Return sessions on the server that `pymysql.connect` finds by `parameters`."""
    options = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT, **parameters}
    return Sessions(
        lambda: pymysql.connect(**options), lambda connection: connection._sock.fileno()
    )


def lock_name(name: str) -> str:
    """Return a name that the server takes as it is, whatever its length, case or script."""
    return f"lock:{hashlib.blake2b(name.encode(), digest_size=20).hexdigest()}"


class SessionLease(Lease):
    """A user-level lock that lives as long as its connection."""

    __slots__ = ("_connection", "_lock")

    def __init__(self, lock: MySQLLock, connection: Any, token: int) -> None:
        """Describe the lock that `connection` holds."""
        super().__init__(lock.name, token=token, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._connection = connection

    def check(self) -> None:
        """Ask the server whether the connection, and so the lock, still stands."""
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

    def _extend(self, seconds: float) -> bool:
        raise LockUnsupported("it lasts as long as its connection; there is no end to move")


def scalar(connection: Any, query: str, *arguments: object) -> Any:
    """Return the first column of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchone()[0]


class MySQLLock(WaitingLock):
    """`GET_LOCK` under a name of any length and script."""

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
        self.key = lock_name(name)

    def _acquire(self, deadline: Deadline) -> Lease:
        with self._connected() as connection:
            seconds = min(deadline.left(), FOR_EVER)
            # 1: ours. 0: not in time. NULL: killed, or a deadlock with the order of other locks.
            if scalar(connection, "SELECT GET_LOCK(%s, %s)", self.key, seconds) != 1:
                raise LockTimeout(f"not free within {deadline.elapsed():.3f} s")
            with connection.cursor() as cursor:
                cursor.execute(MINT)
                token = cursor.lastrowid
        return SessionLease(self, connection, token)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Lend a connection; on any failure drop it, and with it the lock it may hold."""
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
            self.sessions.close()  # what broke one, a restart say, has most likely broken all
            raise LockUnavailable(f"MySQL: {error}") from error
        except BaseException:  # KeyboardInterrupt while waiting: nobody knows what was granted
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
        logger.warning("taking the lock %r from connection %d: %s", self.name, holder, reason)
        with self._connected() as connection, connection.cursor() as cursor:
            cursor.execute("KILL %s", (holder,))
        self.sessions.give_back(connection)
        return True
