"""Every backend as the suite sees it: its servers, its locks, and what it may leave behind.

One instance is made in each process that uses the locks, from what `Server.endpoint` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import redis

from locking.base import Lock
from locking.tests import other_servers, servers
from locking.tests.servers import Server

if TYPE_CHECKING:
    from kazoo.client import KazooClient


class Backend:
    """One strategy on one kind of server."""

    name: ClassVar[str]
    servers: ClassVar[Sequence[type[Server]]]
    lease: ClassVar[float] = 0.6  # s; what the tests take as a short lease or session
    # s after which the lock of a killed holder must be free: long on a busy machine, but shorter
    # than the lease that locks have otherwise.
    crash_release: ClassVar[float] = 15.0
    # s by which a lease may end later on the server than its holder was told.
    late_end: ClassVar[float] = 0.1
    heavy: ClassVar[bool] = False  # its server takes seconds to start: the tests are long ones
    rounds: ClassVar[int] = 25  # acquisitions of each process in the exclusion test

    def __init__(self, endpoints: Sequence[Any]) -> None:
        self.endpoints = endpoints

    @classmethod
    def prepare(cls, endpoints: Sequence[Any]) -> None:
        """Make tables and the like; called once."""

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        """Return a handle whose lease, if it has one, lasts `lease` seconds."""
        raise NotImplementedError

    def traces(self, name: str) -> list[str]:
        """Return what is on the server for a lock that nobody uses."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connections."""

    def in_line(self, lock: Lock) -> int | None:
        """Return how many wait, from whatever source; None if waiters are known to nobody."""
        return lock.waiters() if lock.capabilities.counts_waiters else None


class _RedisLock(Backend):
    lease = 0.8  # renewed three times in it, on a busy machine too

    def __init__(self, endpoints: Sequence[Any]) -> None:
        super().__init__(endpoints)
        self.client = redis.Redis.from_url(endpoints[0], socket_timeout=5)

    def close(self) -> None:
        self.client.close()

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.redis import RedisLock

        return RedisLock(self.client, name, lease=lease, **options)

    def traces(self, name: str) -> list[str]:
        keys = [key.decode() for key in self.client.scan_iter(count=1000) if name.encode() in key]
        # The counter of the fencing tokens may stay for a while, but must be volatile.
        return [key for key in keys if not (key.endswith("fence") and self.client.pttl(key) > 0)]


class RedisOnValkey(_RedisLock):
    name = "redis-valkey"
    servers = (servers.Valkey,)


class RedisOnRedis(_RedisLock):
    name = "redis-redis"
    servers = (servers.Redis,)


class RedlockOnValkey(Backend):
    name = "redlock"
    servers = (servers.Valkey,) * 5

    def __init__(self, endpoints: Sequence[Any]) -> None:
        from locking.backends.redlock import redlock_clients

        super().__init__(endpoints)
        self.clients = redlock_clients(endpoints)

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.redlock import RedLock

        return RedLock(self.clients, name, lease=lease, **options)

    def traces(self, name: str) -> list[str]:
        return [
            key.decode()
            for client in self.clients
            for key in client.scan_iter(count=1000)
            if name.encode() in key
        ]


class _Postgres(Backend):
    servers = (servers.Postgres,)
    # All of these would be left by a lock that was not let go, whatever its kind.
    activity: ClassVar[str] = """
        SELECT state || ': ' || query FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'
        UNION ALL
        SELECT locktype FROM pg_locks WHERE locktype = 'advisory'
        UNION ALL
        SELECT name FROM lock_lease WHERE name = %s
    """

    def __init__(self, endpoints: Sequence[Any]) -> None:
        from locking.backends.database import postgres_sessions

        super().__init__(endpoints)
        self.sessions = postgres_sessions(endpoints[0])

    def close(self) -> None:
        self.sessions.close()

    @classmethod
    def prepare(cls, endpoints: Sequence[Any]) -> None:
        import psycopg

        from locking.backends import database, database_lease

        with psycopg.connect(endpoints[0], autocommit=True) as connection:
            connection.execute(database.SCHEMA)
            connection.execute(database_lease.SCHEMA)

    def traces(self, name: str) -> list[str]:
        import psycopg

        with psycopg.connect(self.endpoints[0], autocommit=True) as connection:
            return [row[0] for row in connection.execute(self.activity, (name,))]


class PostgresAdvisory(_Postgres):
    name = "postgres-advisory"

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.database import AdvisoryLock

        return AdvisoryLock(self.sessions, name, **options)


class PostgresTransaction(_Postgres):
    name = "postgres-transaction"

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.database import TransactionLock

        return TransactionLock(self.sessions, name, **options)


class PostgresRow(_Postgres):
    name = "postgres-row"

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.database import RowLock

        return RowLock(self.sessions, name, **options)


class PostgresLease(_Postgres):
    name = "postgres-lease"

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.database_lease import LeaseRowLock

        return LeaseRowLock(self.sessions, name, lease=lease, **options)


class MariaDB(Backend):
    name = "mariadb"
    servers = (other_servers.MariaDB,)
    heavy = True

    def __init__(self, endpoints: Sequence[Any]) -> None:
        from locking.backends.mysql import mysql_sessions

        super().__init__(endpoints)
        self.sessions = mysql_sessions(**endpoints[0])

    def close(self) -> None:
        self.sessions.close()

    @classmethod
    def prepare(cls, endpoints: Sequence[Any]) -> None:
        import pymysql

        from locking.backends.mysql import SCHEMA

        connection = pymysql.connect(**endpoints[0] | {"database": None})
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE locks")
            cursor.execute("USE locks")
            for statement in SCHEMA:
                cursor.execute(statement)
            connection.commit()

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.mysql import MySQLLock

        return MySQLLock(self.sessions, name, **options)

    def _processes(self, condition: str) -> list[str]:
        import pymysql

        connection = pymysql.connect(**self.endpoints[0])
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT info FROM information_schema.processlist "
                f"WHERE id <> connection_id() AND {condition}"
            )
            return [row[0] for row in cursor.fetchall()]

    def in_line(self, lock: Lock) -> int:
        return len(self._processes("state = 'User lock'"))

    def traces(self, name: str) -> list[str]:
        import pymysql

        from locking.backends.mysql import lock_name

        connection = pymysql.connect(**self.endpoints[0])
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT IS_USED_LOCK(%s)", (lock_name(name),))
            held = [f"held by connection {row[0]}" for row in cursor.fetchall() if row[0]]
        return held + self._processes("info LIKE '%GET_LOCK%'")


class Memcached(Backend):
    name = "memcached"
    servers = (other_servers.Memcached,)
    lease = 1.0
    late_end = 2.2  # whole seconds, and one more

    def __init__(self, endpoints: Sequence[Any]) -> None:
        from locking.backends.memcached import memcached_client

        super().__init__(endpoints)
        self.client = memcached_client(endpoints[0])

    def close(self) -> None:
        self.client.close()

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        from locking.backends.memcached import MemcachedLock

        return MemcachedLock(self.client, name, lease=lease, **options)

    def traces(self, name: str) -> list[str]:
        from locking.backends.memcached import item_key

        value = self.client.get(item_key("lock", name))
        return [] if value is None else [value.decode()]


class ZooKeeper(Backend):
    name = "zookeeper"
    servers = (other_servers.ZooKeeper,)
    heavy = True
    lease = 3.0  # the session
    # A restart of the server must fit into a third of it; a JVM starts slowly on a busy machine.
    long_session = 90.0

    def __init__(self, endpoints: Sequence[Any]) -> None:
        super().__init__(endpoints)
        self.clients: dict[float, KazooClient] = {}
        self.client = self.with_session(self.long_session)

    def with_session(self, seconds: float) -> KazooClient:
        """Return the client whose session ends so many seconds after its last sign of life."""
        from locking.backends.zookeeper import zookeeper_client

        if seconds not in self.clients:
            self.clients[seconds] = zookeeper_client(self.endpoints[0], session=seconds)
            self.clients[seconds].start(timeout=20)
        return self.clients[seconds]

    def close(self) -> None:
        for client in self.clients.values():
            client.stop()
            client.close()

    def lock(self, name: str, *, lease: float = long_session, **options: Any) -> Lock:
        from locking.backends.zookeeper import ZooKeeperLock

        return ZooKeeperLock(self.with_session(lease), name, **options)

    def traces(self, name: str) -> list[str]:
        from locking.backends.zookeeper import ROOT

        if not self.client.exists(ROOT):
            return []
        return [path for path in self.client.get_children(ROOT) if name in path]


class Etcd(Backend):
    name = "etcd"
    servers = (other_servers.Etcd,)
    heavy = True
    lease = 1.0
    late_end = 1.2  # whole seconds

    def __init__(self, endpoints: Sequence[Any]) -> None:
        from locking.backends.etcd import etcd_client

        super().__init__(endpoints)
        self.client = etcd_client(**endpoints[0])

    def close(self) -> None:
        self.client.session.close()

    # Longer than any test on a busy disk: etcd syncs each change to it.
    def lock(self, name: str, *, lease: float = 120.0, **options: Any) -> Lock:
        from locking.backends.etcd import EtcdLock

        return EtcdLock(self.client, name, lease=lease, **options)

    def traces(self, name: str) -> list[str]:
        found = self.client.get("locks/", metadata=True, range_end="locks0")
        keys = [entry["key"].decode() for _, entry in found]
        return [key for key in keys if name in key]


ALL: tuple[type[Backend], ...] = (
    RedisOnValkey,
    RedlockOnValkey,
    PostgresAdvisory,
    PostgresTransaction,
    PostgresRow,
    PostgresLease,
    RedisOnRedis,
    MariaDB,
    Memcached,
    ZooKeeper,
    Etcd,
)
BY_NAME = {backend.name: backend for backend in ALL}
