"""The lock lives on the client's pool: it takes a connection for a command, and gives it back."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
from redis import Redis

from development.needs import FAKEREDIS, needs
from development.servers import Valkey, free_port
from locking import LockError, LockTimeout, LockUnavailable
from locking.queue import DelayQueue
from locking.redis_client import connect
from locking.redis_lock import RedisLock
from locking.redis_lock_async import AsyncRedisLock
from locking.tests.helpers import PROCESSES, Task, eventually, until_renewed


def connections(store: Redis) -> int:
    """How many connections the server has taken so far."""
    return int(store.info("stats")["total_connections_received"])


def test_client_per_request_costs_no_connection(store: Redis, store_server: Any) -> None:
    pool = redis.ConnectionPool.from_url(store_server.endpoint)
    RedisLock(Redis(connection_pool=pool), "item:0").acquire().release()
    before, threads = connections(store), threading.active_count()
    for request in range(200):
        with RedisLock(Redis(connection_pool=pool), f"item:{request % 5}"):
            pass
    assert connections(store) == before
    assert threading.active_count() <= threads + 1
    pool.disconnect()


@pytest.mark.parametrize("most", [1, 2, 3])
def test_holder_always_gets_a_connection(store: Redis, store_server: Any, most: int) -> None:
    """Many waiters in its process do not take the last one, whatever `max_connections` is."""
    with Redis.from_url(store_server.endpoint, max_connections=most) as client:
        holder = RedisLock(client, "phone", lease=3).acquire()
        waiters = [Task(lambda: RedisLock(client, "phone").acquire(60)) for _ in range(6)]
        eventually(lambda: RedisLock(store, "phone").waiters() == 6)
        for _renewal in range(2):
            until_renewed(holder)
        holder.check()
        holder.release()
        for _ in range(6):
            [done] = eventually(lambda: [one for one in waiters if not one.is_alive()][:1])
            waiters.remove(done)
            done.result().release()


def test_holder_releases_at_the_servers_limit(own_valkey: Valkey) -> None:
    """The server takes no further connection; a waiter of the same process gives its own back."""
    with (
        Redis.from_url(own_valkey.endpoint) as admin,
        Redis.from_url(own_valkey.endpoint) as client,
    ):
        holder = RedisLock(client, "phone").acquire()
        waiter = Task(lambda: RedisLock(client, "phone").acquire(60).release())
        eventually(lambda: admin.info("clients")["blocked_clients"] == 1)
        admin.config_set("maxclients", admin.info("clients")["connected_clients"])
        holder.release()
        waiter.result()


def test_fork_takes_no_connection_nor_lease_along(store: Redis, store_server: Any) -> None:
    with Redis.from_url(store_server.endpoint) as client:
        lease = RedisLock(client, "phone").acquire()
        fork = PROCESSES.get_context("fork")
        answers = fork.Queue()
        child = fork.Process(target=_in_child, args=(client, lease, answers))
        child.start()
        assert answers.get(timeout=60) == ("LockLost", "LockTimeout")
        child.join(20)
        lease.check()
        lease.release()
        RedisLock(client, "other").acquire().release()


def _in_child(client: Redis, lease: Any, answers: Any) -> None:
    def outcome(call: Any) -> str:
        try:
            call()
        except LockError as error:
            return type(error).__name__
        return "ok"

    other = RedisLock(client, "other", lease=3).acquire()
    until_renewed(other)
    other.release()
    lost = outcome(lease.release)
    answers.put((lost, outcome(lambda: RedisLock(client, "phone").acquire(0))))


test_fork_takes_no_connection_nor_lease_along = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)(test_fork_takes_no_connection_nor_lease_along)


def test_thread_that_cannot_start_fails_one_acquire(store: Redis, monkeypatch: Any) -> None:
    from locking.redis_lock import Renewer

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lock = RedisLock(store, "phone", lease=0.6)
    lock.renewer = Renewer()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(LockError, match="no thread can be started"):
            lock.acquire(1)
    assert not lock.locked()
    with lock as lease:
        until = time.monotonic() + 1.5
        eventually(lambda: time.monotonic() > until or not lease.remaining())
        lease.check()  # later leases are renewed as usual


# -- what redis-py offers works


def test_rotated_password_is_used(own_valkey: Valkey) -> None:
    with Redis.from_url(own_valkey.endpoint) as admin:
        admin.config_set("requirepass", "old")
        admin.auth("old")
        client = Redis.from_url(own_valkey.endpoint, password="old")
        lock = RedisLock(client, "phone")
        lock.acquire(1).release()
        admin.config_set("requirepass", "new")
        client.connection_pool.connection_kwargs["password"] = "new"
        client.connection_pool.disconnect()
        client.connection_pool.reset()
        lock.acquire(1).release()
        client.close()


def test_credential_provider_is_asked(own_valkey: Valkey) -> None:
    class Vault(redis.CredentialProvider):
        asked = 0

        def get_credentials(self) -> tuple[str, str]:
            Vault.asked += 1
            return "default", "secret"

    with Redis.from_url(own_valkey.endpoint) as admin:
        admin.config_set("requirepass", "secret")
        client = Redis(port=own_valkey.port, credential_provider=Vault())
        RedisLock(client, "phone").acquire(1).release()
        client.close()
    assert Vault.asked


@pytest.mark.parametrize("protocol", [2, 3])
def test_either_protocol_works(store_server: Any, store: Redis, protocol: int) -> None:
    with Redis.from_url(store_server.endpoint, protocol=protocol) as client:
        lock = RedisLock(client, "phone")
        holder = lock.acquire()
        heir = Task(lambda: RedisLock(client, "phone").acquire(10))
        eventually(lambda: lock.waiters() == 1)
        holder.release()
        heir.result().release()


def test_wrapped_client_sees_the_locks_commands(store: Redis, monkeypatch: Any) -> None:
    """As OpenTelemetry and others wrap redis-py."""
    calls: list[str] = []
    real = Redis.execute_command

    def wrapper(self: Any, *words: Any, **options: Any) -> Any:
        calls.append(words[0])
        return real(self, *words, **options)

    monkeypatch.setattr(Redis, "execute_command", wrapper)
    RedisLock(store, "phone").acquire().release()
    assert calls[-2:] == ["EVALSHA", "EVALSHA"]


@needs(FAKEREDIS)
def test_fakeredis_serves_for_the_tests_of_programs() -> None:
    import fakeredis

    client = fakeredis.FakeRedis()
    with RedisLock(client, "phone") as lease:
        waiting = Task(lambda: RedisLock(client, "phone").acquire(10))
        eventually(lambda: RedisLock(client, "phone").waiters() == 1)
    heir = waiting.result()
    assert heir.token > lease.token
    heir.release()
    assert DelayQueue(client, "orders").enqueue(["a"], 0) == 1

    async def use() -> None:
        async with AsyncRedisLock(fakeredis.FakeAsyncRedis(), "phone"):
            pass

    asyncio.run(use())


@pytest.mark.parametrize("client", ["redis://127.0.0.1:1", None, object()])
def test_lock_refuses_an_object_that_is_not_a_client(client: Any) -> None:
    for kind in (RedisLock, AsyncRedisLock):
        with pytest.raises(TypeError, match="client of redis-py"):
            kind(client, "phone")


async def test_client_of_the_other_form_is_refused(valkey: Redis, valkey_async: Any) -> None:
    with pytest.raises(TypeError, match="AsyncRedisLock"):
        RedisLock(valkey_async, "phone")
    with pytest.raises(TypeError, match="RedisLock"):
        AsyncRedisLock(valkey, "phone")  # type: ignore[arg-type]


async def test_thousand_tasks_share_a_few_connections(valkey: Redis, valkey_async: Any) -> None:
    lock = AsyncRedisLock(valkey_async, "phone")
    before = connections(valkey)
    inside: list[int] = []

    async def enter() -> None:
        async with await AsyncRedisLock(valkey_async, "phone").acquire(50):
            inside.append(1)

    async with lock:
        tasks = [asyncio.create_task(enter()) for _ in range(300)]
        while await lock.waiters() < 300:
            await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    assert len(inside) == 300
    assert connections(valkey) - before <= 24


# -- servers that have changed


@contextmanager
def forwarder(target: list[int]) -> Iterator[int]:
    """Listen on a port that leads to the last port of a list, for new connections."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass
        one.close()
        other.close()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", target[-1]))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.close()


def test_fail_over_behind_a_fixed_address_is_ridden_out() -> None:
    """The old primary becomes a replica, keeps its connections, and refuses to write."""
    with Valkey() as old, Valkey() as new:
        target = [old.port]
        with forwarder(target) as port, connect(f"redis://127.0.0.1:{port}") as client:
            lock = RedisLock(client, "phone", lease=2)
            lock.acquire(1).release()
            target.append(new.port)
            with Redis(port=old.port) as demoted:
                demoted.replicaof("127.0.0.1", str(new.port))
            lock.acquire(5).release()
            lock.acquire(5).release()


def test_dead_server_is_unavailable_at_once() -> None:
    with connect(f"redis://127.0.0.1:{free_port()}") as client:
        began = time.monotonic()
        with pytest.raises(LockUnavailable):
            RedisLock(client, "phone").acquire(60)
        assert time.monotonic() - began < 30


def test_silent_server_does_not_outlast_the_timeout(own_valkey: Valkey) -> None:
    """Whatever the client's own time-out is."""
    with Redis.from_url(own_valkey.endpoint, socket_timeout=120) as client:
        lock = RedisLock(client, "phone")
        lock.acquire().release()
        with own_valkey.stopped(), pytest.raises((LockUnavailable, LockTimeout)):
            Task(lambda: lock.acquire(0.3)).result(within=30)


def test_locks_work_in_a_process_that_is_ending(store_server: Any) -> None:
    """A worker's thread goes on after the main thread has ended."""
    program = f"""
import threading, time
from locking.redis_client import connect
from locking.redis_lock import RedisLock
client, got = connect({store_server.endpoint!r}), threading.Event()
def work():
    lease = RedisLock(client, "ending").acquire(timeout=5)
    got.set()
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    lease.release()
    RedisLock(client, "ending").acquire(timeout=5).release()
    print("done")
threading.Thread(target=work).start()
got.wait()
"""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert done.stdout.strip() == "done", done.stderr
