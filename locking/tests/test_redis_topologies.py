"""Clients from URLs, and what is behind them: a server, a socket, TLS, a cluster, Sentinels."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
import redis.asyncio
from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from development import servers
from development.needs import programs, require
from development.servers import ClusterNode, Replica, SentinelServer, Valkey, free_port
from locking import LockTimeout, LockUnavailable
from locking.queue import DelayQueue
from locking.redis_client import connect, connect_async
from locking.redis_lock import RedisLock
from locking.redis_lock_async import AsyncRedisLock
from locking.tests.helpers import Task, eventually, fence, in_loop, until_waiting
from locking.tests.topologies import (
    SLOTS,
    cluster_url,
    in_sync,
    move_slot,
)

__all__ = ["cluster_url"]

# redis-py leaves its own connections to Sentinels open; some of these tests drop a lease.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


async def hand_over(client: Any, name: str = "phone") -> None:
    """One task after the other, under one name."""
    lock, other = AsyncRedisLock(client, name), AsyncRedisLock(client, name)
    async with lock as lease:
        waiting = asyncio.create_task(other.acquire(timeout=20))
        await until_waiting(lock)
        with pytest.raises(LockTimeout):
            await AsyncRedisLock(client, name).acquire(timeout=0)
    heir = await waiting
    assert fence(heir) > fence(lease)
    await heir.release()


def use(url: str, name: str = "phone") -> None:
    """A hand-over with a blocking and with an asyncio client."""
    with connect(url) as client:
        lock = RedisLock(client, name)
        with lock as lease:
            waiting = Task(lambda: RedisLock(client, name).acquire(timeout=20))
            eventually(lambda: lock.waiters() == 1)
        heir = waiting.result()
        assert fence(heir) > fence(lease)
        heir.release()
    in_loop(url, partial(hand_over, name=name))


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_connect_to_a_server(valkey_server: Valkey, scheme: str):
    use(valkey_server.endpoint.replace("redis", scheme, 1))


def test_connect_to_a_unix_socket():
    server = Valkey()
    server.options = ("--unixsocket", str(server.home / "socket"))
    with server:
        use(f"unix://{server.home}/socket?db=1")


def test_connect_refuses_another_kind_of_url():
    for url in ("127.0.0.1", "http://127.0.0.1", "redis+other://127.0.0.1", "unix+sentinel://x"):
        for make in (connect, connect_async):
            with pytest.raises(ValueError, match="URL"):
                make(url)
    with pytest.raises(ValueError, match="names no service"):
        connect("redis+sentinel://127.0.0.1:26379")
    for url in ("redis+cluster://", "redis+cluster://one:x,two"):
        with pytest.raises(ValueError, match=r"URL|Port"):
            connect(url)
    with pytest.raises(TypeError, match="a URL is text, not None"):
        connect(None)  # type: ignore[arg-type]


def sentinels_of(url: str) -> list[tuple[str, int]]:
    client: Any = connect(url)
    pool = client.connection_pool
    sentinels = pool.sentinel_manager.sentinels
    places = [sentinel.connection_pool.connection_kwargs for sentinel in sentinels]
    return [(place["host"], place["port"]) for place in places]


def test_connect_accepts_ipv6_addresses():
    url = "redis+sentinel://:p@[::1]:1,two,[fe80::2%eth0],[::3]:4/shop/3"
    addresses = [("::1", 1), ("two", 26379), ("fe80::2%eth0", 26379), ("::3", 4)]
    assert sentinels_of(url) == addresses
    for wrong in ("::1", "::1:26379", "[::1", "[]:1", "one:two", "[::1]x"):
        with pytest.raises(ValueError, match="brackets"):
            connect(f"redis+sentinel://{wrong}/shop")


def test_cluster_is_found_by_an_ipv6_address():
    with ClusterNode() as node:
        with Redis(port=node.port) as client:
            serve_all_slots(client)
        mapped = f"[::ffff:127.0.0.1]:{node.port}"
        for url in (f"redis+cluster://{mapped}", f"redis+cluster://[::1]:{free_port()},{mapped}"):
            client = connect(url)
            RedisLock(client, "phone").acquire().release()
            client.close()


@pytest.mark.parametrize("make", [connect, connect_async])
@pytest.mark.parametrize("url", ["redis://one", "redis+sentinel://one,two/shop"])
def test_option_of_the_caller_wins_over_the_default(make: Any, url: str):
    options = {"socket_timeout": 7.0, "socket_connect_timeout": 5.0, "socket_keepalive": False}
    client = make(url, timeout=0.5, **options)
    assert options.items() <= client.connection_pool.connection_kwargs.items()


def test_connect_passes_credentials_and_query_to_sentinels():
    url = "redis+sentinel://u%40s:p%2Fw@one:1,two:2,three/shop/3?socket_timeout=2&client_name=a%20b"
    for make in (connect, connect_async):
        client = make(url, timeout=0.5)
        assert isinstance(client, Redis | redis.asyncio.Redis)
        settings = client.connection_pool.connection_kwargs
        assert (settings["username"], settings["password"], settings["db"]) == ("u@s", "p/w", 3)
        assert (settings["socket_timeout"], settings["socket_connect_timeout"]) == (2.0, 0.5)
        assert settings["client_name"] == "a b"
        manager = client.connection_pool.sentinel_manager  # type: ignore[union-attr]
        places = [sentinel.connection_pool.connection_kwargs for sentinel in manager.sentinels]
        hosts = [(place["host"], place["port"]) for place in places]
        assert hosts == [("one", 1), ("two", 2), ("three", 26379)]
        assert not any("password" in place and place["password"] for place in places)


# -- clusters


def serve_all_slots(node: Redis) -> None:
    """Make a node a cluster of one."""
    node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
    eventually(lambda: node.execute_command("CLUSTER INFO")["cluster_state"] == "ok")


class TlsServer(servers.Redis):
    """Redis with TLS only; a cluster of one, if asked for."""

    need = programs("Redis with TLS", "redis-server", "openssl", package="redis-server openssl")

    def __init__(self, cluster: bool) -> None:
        super().__init__()
        self.cluster = cluster

    def prepare(self) -> None:
        super().prepare()
        servers.make_authority(self.home)
        servers.make_certificate(self.home, "server")

    def command(self) -> list[str]:
        tls = {"tls-port": self.port, "port": 0, "tls-auth-clients": "no"}
        tls |= {"tls-cert-file": "server.pem", "tls-key-file": "server.key"}
        tls |= {"tls-ca-cert-file": "ca.pem"}
        if self.cluster:
            tls |= {"cluster-enabled": "yes", "tls-cluster": "yes", "cluster-port": free_port()}
        return [*super().command(), *(word for k, v in tls.items() for word in (f"--{k}", str(v)))]

    @property
    def endpoint(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0?ssl_ca_certs={self.home}/ca.pem"


@pytest.mark.parametrize("cluster", [False, True], ids=["server", "cluster"])
def test_tls(cluster: bool):
    require(TlsServer.need)
    with TlsServer(cluster) as server:
        url = server.endpoint
        if cluster:
            with Redis.from_url(url) as client:
                serve_all_slots(client)
            url = url.replace("rediss", "rediss+cluster").replace("/0?", "?")
        use(url)


@pytest.fixture
def cluster(cluster_url: str) -> Iterator[RedisCluster]:
    with connect(cluster_url) as client:
        assert isinstance(client, RedisCluster)
        yield client


def test_cluster_locks_on_all_nodes_work_and_hand_over(cluster, cluster_url):
    names = [f"item-{number}" for number in range(12)]
    on_node = {cluster.get_node_from_key(f"lock:{{{name}}}").name: name for name in names}
    assert len(on_node) == 3
    for name in on_node.values():
        use(cluster_url, name)


def test_cluster_lock_follows_its_slot_to_another_node(cluster, cluster_url):
    lock = RedisLock(cluster, "moving")
    before = lock.acquire()
    before.release()

    async def scenario(client: redis.asyncio.RedisCluster) -> None:
        lock = AsyncRedisLock(client, "moving")
        await (await lock.acquire()).release()
        move_slot(cluster, "moving")
        await (await lock.acquire(timeout=5)).release()

    in_loop(cluster_url, scenario)
    after = lock.acquire(timeout=5)  # this handle has to learn where the slot went
    assert fence(after) > fence(before)
    after.release()


def test_cluster_needs_only_one_node_of_its_url():
    with ClusterNode() as node:
        with Redis(port=node.port) as client:
            serve_all_slots(client)
        url = f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{node.port}"

        async def scenario(client: redis.asyncio.RedisCluster) -> None:
            lock = AsyncRedisLock(client, "phone")
            await (await lock.acquire()).release()
            node.kill()
            with pytest.raises(LockUnavailable):
                await lock.acquire(timeout=1)

        with connect(url) as used, connect(url) as new:
            RedisLock(used, "phone").acquire().release()
            in_loop(url, scenario)
            for client in (used, new):
                with pytest.raises(LockUnavailable):
                    RedisLock(client, "phone").acquire(timeout=1)


def test_cluster_delay_queue_works(cluster):
    queue = DelayQueue(cluster, "orders")
    queue.enqueue(["a", "b"], -1)
    assert queue.acknowledge(queue.pop(2)) == 2


def test_cluster_clients_are_freed(cluster_url: str):
    client = connect(cluster_url)
    RedisLock(client, "phone").acquire().release()
    DelayQueue(client, "orders").enqueue(["a"], 0)
    seen = weakref.ref(client)
    client.close()
    del client
    eventually(lambda: gc.collect() >= 0 and seen() is None)


# -- replicas and Sentinels


@contextmanager
def sentinels(count: int) -> Iterator[tuple[list[Any], Any, str]]:
    """A primary with a replica, watched by so many Sentinels."""
    with ExitStack() as stack:
        primary = stack.enter_context(Valkey())
        stack.enter_context(Replica(primary))
        watching = [stack.enter_context(SentinelServer(primary)) for _ in range(count)]
        client = stack.enter_context(Redis(port=primary.port))
        eventually(lambda: in_sync(client), within=30)
        for sentinel in watching:
            with Redis(port=sentinel.port) as asked:
                ask = partial(asked.execute_command, "SENTINEL", "REPLICAS", "shop")
                eventually(ask, within=30)
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in watching)
        yield watching, primary, f"redis+sentinel://{places}/shop"


@pytest.mark.long
def test_behind_sentinels_the_locks_move_to_the_promoted_replica():
    with sentinels(1) as (_, primary, url), connect(url) as client:
        other = RedisLock(client, "phone")
        before = RedisLock(client, "phone").acquire(timeout=5)
        with Redis(port=primary.port) as direct:
            direct.set("written after the lease", 1)
            assert direct.wait(1, 20_000) == 1  # so the replica has the lease as well

        async def scenario(client: redis.asyncio.Redis) -> None:
            lock = AsyncRedisLock(client, "other")
            held = await lock.acquire()
            waiting = asyncio.create_task(AsyncRedisLock(client, "other").acquire(timeout=50))
            await until_waiting(lock)
            await asyncio.to_thread(primary.kill)
            held.drop()
            await (await waiting).release()

        def still_ours() -> bool:
            try:
                before.extend(10)
            except LockUnavailable:
                return False
            return True

        in_loop(url, scenario)
        eventually(still_ours, within=30)
        with pytest.raises(LockTimeout):
            Task(lambda: other.acquire(timeout=0)).result()
        before.release()
        after = other.acquire(timeout=5)
        assert fence(after) > fence(before)
        after.release()


@pytest.mark.long
def test_silent_sentinel_does_not_stop_an_acquire():
    with sentinels(2) as (watching, _, url), watching[0].stopped():
        Task(use, url).result(within=30)


def test_server_error_raises_lock_unavailable(own_valkey: Valkey):
    with Redis.from_url(own_valkey.endpoint) as client:
        lock = RedisLock(client, "phone")
        lock.acquire().release()
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        with pytest.raises(LockUnavailable) as caught:
            lock.acquire(timeout=5)
        assert isinstance(caught.value.__cause__, RedisError)
        client.config_set("maxmemory", 0)
        lock.acquire(timeout=5).release()


@pytest.mark.parametrize(
    ("user", "words"), [("eve:no", "invalid username-password pair"), ("eve:pw", "evalsha")]
)
def test_server_refusal_is_not_reported_as_silence(valkey, valkey_server, user, words):
    valkey.acl_setuser("eve", enabled=True, passwords=["+pw"], commands=["+get"], keys=["*"])
    lock = RedisLock(connect(valkey_server.endpoint.replace("//", f"//{user}@")), "phone")
    with pytest.raises(LockUnavailable, match=rf"lock 'phone' refused: .*{words}"):
        lock.acquire(timeout=5)
    valkey.acl_deluser("eve")
