"""Clients from URLs: what they reach, with which settings, and how long they take to fail."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import redis.asyncio
from redis import Redis, RedisCluster, Sentinel

from locking import LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.queue import DelayQueue
from locking.redis_client import connect, connect_async
from locking.tests import other_servers, servers
from locking.tests.helpers import Task, eventually, until_waiting
from locking.tests.needs import programs, require
from locking.tests.servers import Valkey, free_port
from locking.tests.topologies import (
    SLOTS,
    ClusterNode,
    Primary,
    Replica,
    SentinelServer,
    cluster_url,
    in_sync,
    move_slot,
)

__all__ = ["cluster_url"]

# redis-py leaves its own connections to Sentinels open.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def in_loop(url: str, scenario, **options: Any) -> Any:
    async def main() -> Any:
        client = connect_async(url, **options)
        try:
            return await asyncio.wait_for(scenario(client), 60)
        finally:
            await client.aclose()

    return asyncio.run(main())


async def hand_over(client: Any) -> None:
    """One task after the other, under one name."""
    lock, other = AsyncRedisLock(client, "phone"), AsyncRedisLock(client, "phone")
    async with lock as lease:
        waiting = asyncio.create_task(other.acquire(timeout=20))
        await until_waiting(lock)
        with pytest.raises(LockTimeout):
            await AsyncRedisLock(client, "phone").acquire(timeout=0)
    heir = await waiting
    assert (heir.token or 0) > (lease.token or 0)
    await heir.release()


def use(url: str) -> None:
    """A hand-over with a blocking and with an asyncio client."""
    with connect(url) as client:
        lock = RedisLock(client, "phone")
        with lock:
            heir = Task(lambda: RedisLock(client, "phone").acquire(timeout=20).release())
            eventually(lambda: lock.waiters() == 1)
        heir.result()
    in_loop(url, hand_over)


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_a_server(valkey_server: Valkey, scheme: str):
    use(valkey_server.endpoint.replace("redis", scheme, 1))


def test_a_unix_socket():
    class OnSocket(Primary):
        def __init__(self) -> None:
            super().__init__()
            self.options = ("--unixsocket", str(self.home / "socket"))

    with OnSocket() as server:
        use(f"unix://{server.home}/socket?db=1")


def test_another_kind_of_url_is_refused():
    for url in ("127.0.0.1", "http://127.0.0.1", "redis+other://127.0.0.1", "unix+sentinel://x"):
        for make in (connect, connect_async):
            with pytest.raises(ValueError, match="URL"):
                make(url)
    with pytest.raises(ValueError, match="names no service"):
        connect("redis+sentinel://127.0.0.1:26379")


def test_the_credentials_and_the_query_of_a_url_with_sentinels():
    url = "redis+sentinel://u%40s:p%2Fw@one:1,two:2,three/shop/3?socket_timeout=2&client_name=a%20b"
    for make in (connect, connect_async):
        client = make(url, timeout=0.5)
        assert isinstance(client, Redis | redis.asyncio.Redis)
        settings = client.connection_pool.connection_kwargs
        assert (settings["username"], settings["password"], settings["db"]) == ("u@s", "p/w", 3)
        assert (settings["socket_timeout"], settings["socket_connect_timeout"]) == (2.0, 0.5)
        assert settings["client_name"] == "a b"
        manager = client.connection_pool.sentinel_manager  # type: ignore[union-attr]
        places = [each.connection_pool.connection_kwargs for each in manager.sentinels]
        hosts = [(each["host"], each["port"]) for each in places]
        assert hosts == [("one", 1), ("two", 2), ("three", 26379)]
        assert not any("password" in each and each["password"] for each in places)


class TlsServer(servers.Redis):
    """Redis with TLS only; a cluster of one, if asked for."""

    need = programs("Redis with TLS", "redis-server", "openssl", package="redis-server openssl")
    cluster = False

    def prepare(self) -> None:
        other_servers.make_authority(self.home)
        other_servers.make_certificate(self.home, "server")

    def command(self) -> list[str]:
        tls = {"tls-port": self.port, "port": 0, "tls-auth-clients": "no"}
        tls |= {"tls-cert-file": "server.pem", "tls-key-file": "server.key"}
        tls |= {"tls-ca-cert-file": "ca.pem"}
        if self.cluster:
            tls |= {"cluster-enabled": "yes", "tls-cluster": "yes", "cluster-port": free_port()}
        return [*super().command(), *(word for k, v in tls.items() for word in (f"--{k}", str(v)))]

    def ping(self) -> None:
        with Redis.from_url(self.endpoint) as client:
            client.ping()

    @property
    def endpoint(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0?ssl_ca_certs={self.home}/ca.pem"


class TlsClusterNode(TlsServer):
    cluster = True


def test_tls():
    require(TlsServer.need)
    with TlsServer() as server:
        use(server.endpoint)


def test_tls_on_a_cluster():
    require(TlsServer.need)
    with TlsClusterNode() as server:
        with Redis.from_url(server.endpoint) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
            eventually(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        use(server.endpoint.replace("rediss", "rediss+cluster").replace("/0?", "?"))


def test_a_cluster_with_asyncio(cluster_url: str):
    async def scenario(client: redis.asyncio.RedisCluster) -> None:
        for number in range(12):
            async with AsyncRedisLock(client, f"item-{number}") as lease:
                assert lease.token
        await hand_over(client)

    in_loop(cluster_url, scenario)


def test_a_cluster_needs_one_node_of_its_url_and_is_unavailable_without_any():
    with ClusterNode() as node:
        with Redis(port=node.port) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
            eventually(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        url = f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{node.port}"

        async def scenario(client: redis.asyncio.RedisCluster) -> None:
            lock = AsyncRedisLock(client, "phone")
            await (await lock.acquire()).release()
            node.kill()
            with pytest.raises(LockUnavailable):
                await lock.acquire(timeout=1)

        with connect(url) as client:
            lock = RedisLock(client, "phone")
            lock.acquire().release()
            in_loop(url, scenario)
            with pytest.raises(LockUnavailable):
                lock.acquire(timeout=1)
        with connect(url) as client, pytest.raises(LockUnavailable):
            RedisLock(client, "phone").acquire(timeout=1)


def test_an_asyncio_lock_follows_its_slot_to_another_node(cluster_url: str):
    async def scenario(client: redis.asyncio.RedisCluster) -> None:
        lock = AsyncRedisLock(client, "travels")
        await (await lock.acquire()).release()
        with connect(cluster_url) as blocking:
            assert isinstance(blocking, RedisCluster)
            move_slot(blocking, "travels")
        await (await lock.acquire(timeout=5)).release()

    in_loop(cluster_url, scenario)


@contextmanager
def sentinels(count: int) -> Iterator[tuple[list[Any], Any, str]]:
    """A primary with a replica, watched by so many Sentinels."""
    with ExitStack() as stack:
        primary = stack.enter_context(Primary())
        stack.enter_context(Replica(primary))
        watching = [stack.enter_context(SentinelServer(primary)) for _ in range(count)]
        client = stack.enter_context(Redis(port=primary.port))
        eventually(lambda: in_sync(client), within=30)
        places = ",".join(f"127.0.0.1:{each.port}" for each in watching)
        yield watching, primary, f"redis+sentinel://{places}/shop"


@pytest.mark.long
def test_sentinels_and_a_failover_with_asyncio():
    with sentinels(1) as (_, primary, url):

        async def scenario(client: redis.asyncio.Redis) -> None:
            await hand_over(client)
            lock = AsyncRedisLock(client, "other")
            await lock.acquire()
            waiting = asyncio.create_task(AsyncRedisLock(client, "other").acquire(timeout=50))
            await until_waiting(lock)
            await asyncio.to_thread(primary.kill)
            lock.lease.drop()
            await (await waiting).release()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the holder's lease is dropped
            in_loop(url, scenario)


@pytest.mark.long
def test_a_silent_sentinel_does_not_hold_an_acquire_up_past_its_deadline():
    """The client's own retries would go on for a quarter of a minute."""
    with sentinels(2) as (watching, _, url):
        patient = Sentinel(
            [("127.0.0.1", each.port) for each in watching], socket_timeout=10
        ).master_for("shop", socket_timeout=10)
        with watching[0].stopped():
            with connect(url) as client:
                Task(lambda: RedisLock(client, "a").acquire(timeout=5).release()).result(within=10)
            in_loop(url, hand_over)
            with pytest.raises(LockUnavailable):
                Task(lambda: RedisLock(patient, "a").acquire(timeout=0.5)).result(within=6)
        patient.close()


def test_the_clients_of_a_cluster_are_freed(cluster_url: str):
    client = connect(cluster_url)
    RedisLock(client, "phone").acquire().release()
    DelayQueue(client, "orders").enqueue(["a"], 0)
    seen = weakref.ref(client)
    client.close()
    del client
    eventually(lambda: gc.collect() >= 0 and seen() is None)
