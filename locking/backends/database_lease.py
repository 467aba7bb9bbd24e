"""PostgreSQL lock that outlives its connection: a row with a unique name and an expiry.

Guarantees: mutual exclusion while leases last, by the server's clock; a held lock survives a
restart of the server and the end of the holder's connection; the lock of a crashed holder is free
when its lease expires, without a cleanup job; a fencing token from a sequence, minted by the
statement that takes the row, so that tokens grow in the order of grants.

Limits: not fair (all waiters try on release, one succeeds); a holder that is paused past its lease
does not notice, so pass its token to the guarded resource; after a failover to an asynchronous
replica the row may be missing.  The lease is not renewed automatically; use `Lease.extend`.

Waiters `LISTEN` for the release and otherwise sleep until the current lease expires.  A release
deletes the row; the row of a crashed holder stays until the next holder takes it over.
"""

from __future__ import annotations

import uuid
from typing import LiteralString, cast

from psycopg import sql

from locking.backends._waiting import BackendLease, Deadline, LeasedLock
from locking.backends.database import Connection, PostgresLock, advisory_key, scalar
from locking.base import Lease
from locking.terms import Capabilities, LockTimeout

SCHEMA = """
CREATE SEQUENCE IF NOT EXISTS lock_fence;
CREATE TABLE IF NOT EXISTS lock_lease (
    name text PRIMARY KEY,
    holder uuid NOT NULL,
    owner text NOT NULL,
    ends timestamptz NOT NULL
);
"""
"""The schema that the lock needs; put it into a migration."""

# RETURNING mints the token after the row is ours, that is, under the lock.  VALUES would mint it
# before a wait for another insert, and a larger token could be granted and released meanwhile.
# clock_timestamp(), unlike now(), advances during a wait.
TAKE = """
INSERT INTO lock_lease AS held (name, holder, owner, ends)
VALUES (%(name)s, %(holder)s, %(owner)s, clock_timestamp() + %(seconds)s * interval '1 s')
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, owner = excluded.owner,
    ends = clock_timestamp() + %(seconds)s * interval '1 s'
WHERE held.ends <= clock_timestamp()
RETURNING nextval('lock_fence')
"""
# An expired row that no client took over may be extended: there was no holder in between.
EXTEND = """
UPDATE lock_lease SET ends = clock_timestamp() + %s * interval '1 s'
WHERE name = %s AND holder = %s RETURNING true
"""
RELEASE = "DELETE FROM lock_lease WHERE name = %s AND holder = %s RETURNING pg_notify(%s, '')"
EVICT = "DELETE FROM lock_lease WHERE name = %s RETURNING pg_notify(%s, '')"
OWNER = "SELECT owner FROM lock_lease WHERE name = %s AND ends > clock_timestamp()"
REMAINING: LiteralString = """
SELECT extract(epoch FROM ends - clock_timestamp())::float8 FROM lock_lease WHERE name = %s
"""

# s; the longest delay for a waiter whose notification was lost with a connection.
SLICE = 2.0


class LeaseRowLock(LeasedLock, PostgresLock):
    """A lock in a unique row, with a lease of `lease` seconds."""

    capabilities = Capabilities(fence=True, survives_server_restart=True)

    def _acquire(self, deadline: Deadline) -> Lease:
        holder = uuid.uuid4()
        with self._lent() as connection:
            lease = self._try(connection, holder)
            if lease is not None:
                return lease
            channel = sql.Identifier(self._channel())
            connection.execute(sql.SQL("LISTEN {}").format(channel))
            try:
                lease = self._wait_for_turn(connection, holder, deadline)
            except LockTimeout:
                connection.execute("UNLISTEN *")
                raise
            connection.execute("UNLISTEN *")
            return lease

    def _channel(self) -> str:
        return f"lock_{advisory_key(self.name) & (2**64 - 1):x}"

    def _let_go(self, lease: BackendLease) -> bool:
        return self._ask(RELEASE, self.name, lease.grant, self._channel()) is not None

    def _prolong(self, lease: BackendLease, seconds: float) -> bool:
        return self._ask(EXTEND, seconds, self.name, lease.grant) is not None

    def _wait_for_turn(
        self, connection: Connection, holder: uuid.UUID, deadline: Deadline
    ) -> Lease:
        # LISTEN is active, so a release between a try and the following wait is not missed.
        while True:
            lease = self._try(connection, holder)
            if lease is not None:
                return lease
            left = deadline.time_left()
            ends_in = scalar(connection, REMAINING, self.name) or 0.0
            for _ in connection.notifies(timeout=min(SLICE, left, max(0.0, ends_in)), stop_after=1):
                pass

    def _try(self, connection: Connection, holder: uuid.UUID) -> Lease | None:
        sent_at = self.clock.monotonic()
        values = {
            "name": self.name,
            "holder": holder,
            "owner": self.owner_name,
            "seconds": self.lease_seconds,
        }
        row = connection.execute(TAKE, values).fetchone()
        if row is None:
            return None
        return BackendLease(self, holder, token=row[0], sent_at=sent_at)

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        return cast("str | None", self._ask(OWNER, self.name))

    def _evict(self) -> bool:
        return self._ask(EVICT, self.name, self._channel()) is not None
