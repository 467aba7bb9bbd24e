"""PostgreSQL's advisory locks: held by a session, or by a transaction.

The server queues those who wait, and the lock is free as soon as it sees the holder's connection
end. Leases have no length, and a fencing token from a sequence. No lock survives a restart or a
fail-over of the server: two clients may then both believe that they hold it until the first one
asks (`Lease.check` does). Each lease and each waiter needs a connection of its own.

`TransactionLock` suits work in the same database: work and lock end in one commit, so that the lock
is never free before the work can be seen. It also works behind PgBouncer's transaction mode, which
breaks `AdvisoryLock`.

The connection's own limits cannot end a lock unnoticed: `statement_timeout`, `lock_timeout`,
`idle_session_timeout` and `idle_in_transaction_session_timeout` of the role or the database are
switched off for it.

Source: PostgreSQL manual, 13.3.5 "Advisory Locks".
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from locking.backends.common import Backend, BackendLease
from locking.base import Capabilities, Lease, LockTimeout

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = "CREATE SEQUENCE IF NOT EXISTS lock_fence"
"""What the locks need in the database, for a migration."""

LONGEST_WAIT = 24 * 86_400
"""Seconds: PostgreSQL counts `lock_timeout` in 32 bits of milliseconds. A longer wait is split."""

LIMITS: LiteralString = """
SELECT set_config('application_name', %s, false), set_config('lock_timeout', %s, false),
       set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
       set_config('idle_in_transaction_session_timeout', '0', false),
       set_config('client_connection_check_interval', '1000', false)
"""
"""Without the last one, a waiter that was killed stays in the queue until it gets the lock."""

# PostgreSQL logs a sequence every 32 values, and the log reaches the disk only with a commit that
# has something to log. Without the empty message, a crash could take it back below tokens in use.
MINT: LiteralString = (
    "SELECT nextval('lock_fence'), pg_logical_emit_message(true, 'lock_fence', '')"
)

# pg_locks shows a bigint key in two halves; objsubid 1 tells it from a pair of integers.
SESSIONS: LiteralString = """
FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid), (SELECT %s::bigint AS key) AS k
WHERE l.locktype = 'advisory' AND l.objsubid = 1
  AND (l.classid::bigint << 32) | l.objid::bigint = k.key
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def advisory_key(name: str) -> int:
    """Return the 64-bit key of a name; two names with one key exclude each other."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"lock").digest()
    return int.from_bytes(digest, signed=True)


class AdvisoryLock(Backend):
    """`pg_advisory_lock`: held by the lease's session, whatever its transactions do.

    Args:
        connect: makes a connection of psycopg in autocommit mode, such as
            `lambda: psycopg.connect(url, autocommit=True)`; or the URL of the database.
        name: the lock's.
        options: `owner`, which operators see in `pg_stat_activity`, and `timeout`.
    """

    server = "PostgreSQL"
    failures = (psycopg.Error,)
    capabilities = Capabilities(
        fence=True, fair=True, renewal=True, crash_release="connection", owner=True, waiters=True,
        force_release=True,
    )  # fmt: skip

    def __init__(self, connect: str | Callable[[], Connection], name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._connect = _connects_to(connect) if isinstance(connect, str) else connect
        self.key = advisory_key(name)

    def _acquire(self, deadline: float) -> Lease:
        connection = self._connect()
        try:
            self._take(connection, deadline)
            # An answer proves that the lock was still held when the token was made, so that no
            # later holder has a smaller one.
            token = self._mint(connection)
            connection.execute("SELECT set_config('lock_timeout', '0', false)")
        except BaseException:
            connection.close()  # with it goes any lock that was granted
            raise
        lease = ConnectionLease(self, connection)
        lease.begin(math.inf, token)
        return lease

    def _take(self, connection: Connection, deadline: float) -> None:
        """Wait for the lock, in steps that PostgreSQL can count."""
        while True:
            left = deadline - time.monotonic()
            milliseconds = max(1, round(min(left, LONGEST_WAIT) * 1000))
            try:
                connection.execute(LIMITS, (self.owner_name[:63], str(milliseconds)))
                self._lock(connection)
                return
            except errors.LockNotAvailable as error:
                connection.rollback()
                if time.monotonic() >= deadline:
                    raise LockTimeout(f"the lock {self.name!r}: {error}".strip()) from error

    def _lock(self, connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_lock(%s)", (self.key,))

    def _mint(self, connection: Connection) -> int:
        return int(_one(connection, MINT))

    def _let_go(self, lease: BackendLease) -> bool:
        """End the session, and with it the lock; return whether it was held until then."""
        connection: Connection = lease.grant
        try:
            return self._unlock(connection)
        except self.failures as error:
            lease.mark_lost(f"its connection failed: {error}".strip())
            return False
        finally:
            connection.close()

    def _unlock(self, connection: Connection) -> bool:
        connection.rollback()  # a transaction that the caller left open; the lock stays
        return bool(_one(connection, "SELECT pg_advisory_unlock(%s)", self.key))

    def _ask(self, query: LiteralString) -> Any:
        with self.asking(), self._connect() as connection:
            return _one(connection, query, self.key)

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        found: str | None = self._ask(f"SELECT a.application_name {SESSIONS} AND l.granted")
        return found

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        return int(self._ask(f"SELECT count(*) {SESSIONS} AND NOT l.granted"))

    def force_release(self, reason: str) -> bool:
        """End the holder's session; needs its role, or that of `pg_signal_backend`."""
        ended = self._ask(f"SELECT pg_terminate_backend(l.pid) {SESSIONS} AND l.granted")
        return self._log_eviction(bool(ended), reason)


def _connects_to(url: str) -> Callable[[], Connection]:
    return lambda: psycopg.connect(url, autocommit=True, connect_timeout=2)


class TransactionLock(AdvisoryLock):
    """`pg_advisory_xact_lock`: held by the transaction that is open on the lease's connection.

    Do the work on `lease.connection`. The end of the block commits work and lock together, or rolls
    back if the block raised. `release` raises `LockLost` if the commit failed.
    """

    def _lock(self, connection: Connection) -> None:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (self.key,))

    def _mint(self, connection: Connection) -> int:
        # On a connection of its own: a rollback or a crash could take the sequence back.
        with self._connect() as other:
            return super()._mint(other)

    def _unlock(self, connection: Connection) -> bool:
        # The server rolls a failed transaction back, and says nothing.
        failed = connection.info.transaction_status == TransactionStatus.INERROR
        connection.commit()
        return not failed


class ConnectionLease(BackendLease):
    """A lock that lasts as long as its `connection`. Work on that connection ends with the lock."""

    __slots__ = ()

    @property
    def connection(self) -> Connection:
        """The connection that holds the lock."""
        held: Connection = self.grant
        return held

    def check(self) -> None:
        """Ask the server whether the connection, and so the lock, is still there.

        Without asking it cannot be known: the lease has no end.

        Raises:
            LockLost: it is not.
        """
        super().check()
        try:
            self.connection.execute("SELECT 1")
        except psycopg.Error as error:
            self.mark_lost(f"its connection failed: {error}".strip())
            super().check()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not self.released:
            with suppress(psycopg.Error):  # `release` then finds the connection broken as well
                self.connection.rollback()
        super().__exit__(kind, error, traceback)


def _one(connection: Connection, query: LiteralString, *arguments: object) -> Any:
    """Return the first column of the first row; None if there is none."""
    row = connection.execute(query, arguments).fetchone()
    return None if row is None else row[0]
