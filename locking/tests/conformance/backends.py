"""Every backend as the suite sees it: its servers, its locks, and what it may leave behind.

One instance is made in each process that uses the locks, from what `Server.endpoint` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import redis

from development import servers
from development.servers import Server
from locking.backends.common import hashed_key
from locking.base import Lock

if TYPE_CHECKING:
    from kazoo.client import KazooClient


class Backend:
    """One strategy on one kind of server."""

    servers: ClassVar[Sequence[type[Server]]]
    lease: ClassVar[float] = 0.6  # s; what the tests take as a short lease or session
    # s after which the lock of a killed holder must be free: long on a busy machine, but shorter
    # than the lease that locks have otherwise.
    crash_release: ClassVar[float] = 15.0
    # s by which a lease may end later on the server than its holder knows.
    late_end: ClassVar[float] = 0.1
    heavy: ClassVar[bool] = False  # its server takes seconds to start: the tests are long ones

    lock_class: ClassVar[str]  # as "module:class"
    leased: ClassVar[bool] = True

    def __init__(self, endpoints: Sequence[Any]) -> None:
        self.endpoints = endpoints
        self.client = self.connect()

    def connect(self) -> Any:
        """Return what the lock's class takes as its first argument."""
        raise NotImplementedError

    @classmethod
    def module(cls) -> Any:
        """Return the module of the lock's class."""
        return import_module(cls.lock_class.partition(":")[0])

    @classmethod
    def prepare(cls, endpoints: Sequence[Any]) -> None:
        """Make tables and the like; called once."""

    def lock(self, name: str, *, lease: float = 30.0, **options: Any) -> Lock:
        """Return a handle whose lease, if it has one, lasts `lease` seconds."""
        if self.leased:
            options["lease"] = lease
        kind = getattr(self.module(), self.lock_class.partition(":")[2])
        return kind(self.client, name, **options)  # type: ignore[no-any-return]

    def traces(self, name: str) -> list[str]:
        """Return what is on the server for a lock that nobody uses."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    def in_line(self, lock: Lock) -> int | None:
        """Return how many wait, from whatever source; None if waiters are known to nobody."""
        return lock.waiters() if lock.capabilities.waiters else None


def keys_of(client: redis.Redis, name: str) -> list[str]:
    """Return the keys of a lock."""
    return [key.decode() for key in client.scan_iter(count=1000) if name.encode() in key]


class RedisOnValkey(Backend):
    servers: ClassVar[Sequence[type[Server]]] = (servers.Valkey,)
    lock_class = "locking.redis_lock:RedisLock"
    lease = 0.8  # renewed three times in it, on a busy machine too

    def connect(self) -> redis.Redis:
        return redis.Redis.from_url(self.endpoints[0], socket_timeout=5)

    def traces(self, name: str) -> list[str]:
        # The counter of the fencing tokens may stay for a while, but must be volatile.
        return [
            key
            for key in keys_of(self.client, name)
            if not (key.endswith("fence") and self.client.pttl(key) > 0)
        ]


class RedisOnRedis(RedisOnValkey):
    servers = (servers.Redis,)


class RedlockOnValkey(Backend):
    servers = (servers.Valkey,) * 5
    lock_class = "locking.backends.redlock:RedLock"

    def connect(self) -> list[redis.Redis]:
        clients: list[redis.Redis] = self.module().redlock_clients(self.endpoints)
        return clients

    def close(self) -> None:
        for client in self.client:
            client.close()

    def traces(self, name: str) -> list[str]:
        return [key for client in self.client for key in keys_of(client, name)]


class PostgresAdvisory(Backend):
    servers = (servers.Postgres,)
    lock_class = "locking.backends.postgres:AdvisoryLock"
    leased = False
    # All of these would be left by a lock that was not let go, whatever its kind.
    activity: ClassVar[str] = """
        SELECT state || ': ' || query FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'
        UNION ALL
        SELECT locktype FROM pg_locks WHERE locktype = 'advisory'
    """

    def connect(self) -> str:
        return str(self.endpoints[0])

    def close(self) -> None:
        """Do nothing: each lease has a connection of its own."""

    @classmethod
    def prepare(cls, endpoints: Sequence[Any]) -> None:
        from locking.backends import postgres

        with psycopg.connect(endpoints[0], autocommit=True) as connection:
            connection.execute(postgres.SCHEMA)

    def traces(self, name: str) -> list[str]:
        with psycopg.connect(self.endpoints[0], autocommit=True) as connection:
            return [row[0] for row in connection.execute(self.activity)]


class PostgresTransaction(PostgresAdvisory):
    lock_class = "locking.backends.postgres:TransactionLock"


class Memcached(Backend):
    servers = (servers.Memcached,)
    lock_class = "locking.backends.memcached:MemcachedLock"
    lease = 1.0
    late_end = 2.2  # whole seconds, and one more

    def connect(self) -> Any:
        return self.module().memcached_client(self.endpoints[0])

    def traces(self, name: str) -> list[str]:
        value = self.client.get(hashed_key(name))
        return [] if value is None else [value.decode()]


class ZooKeeper(Backend):
    servers = (servers.ZooKeeper,)
    lock_class = "locking.backends.zookeeper:ZooKeeperLock"
    heavy = True
    lease = 3.0  # the session
    # A restart of the server must fit into it; a JVM starts slowly on a busy machine.
    long_session = 90.0

    def connect(self) -> KazooClient:
        self.clients: dict[float, KazooClient] = {}
        return self.with_session(self.long_session)

    def with_session(self, seconds: float) -> KazooClient:
        """Return the client whose session ends so many seconds after its last sign of life."""
        if seconds not in self.clients:
            client = self.module().zookeeper_client(self.endpoints[0], session=seconds)
            self.clients[seconds] = client
            client.start(timeout=20)
        return self.clients[seconds]

    def close(self) -> None:
        for client in self.clients.values():
            client.stop()
            client.close()

    def lock(self, name: str, *, lease: float = long_session, **options: Any) -> Lock:
        lock: Lock = self.module().ZooKeeperLock(self.with_session(lease), name, **options)
        return lock

    def traces(self, name: str) -> list[str]:
        lock: Any = self.lock(name)
        path = lock.path
        return list(self.client.get_children(path)) if self.client.exists(path) else []


class Etcd(Backend):
    servers = (servers.Etcd,)
    lock_class = "locking.backends.etcd:EtcdLock"
    heavy = True
    lease = 1.0
    late_end = 1.2  # whole seconds

    def connect(self) -> Any:
        return self.module().etcd_client(**self.endpoints[0])

    def close(self) -> None:
        self.client.session.close()

    # Longer than any test on a busy disk: etcd syncs each change to it.
    def lock(self, name: str, *, lease: float = 120.0, **options: Any) -> Lock:
        return super().lock(name, lease=lease, **options)

    def traces(self, name: str) -> list[str]:
        key = self.client.lock(hashed_key(name)).key
        return [key] if self.client.get(key) else []


ALL: tuple[type[Backend], ...] = (
    RedisOnValkey,
    RedlockOnValkey,
    PostgresAdvisory,
    PostgresTransaction,
    RedisOnRedis,
    Memcached,
    ZooKeeper,
    Etcd,
)
