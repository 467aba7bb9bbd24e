"""What only one backend promises."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from math import inf
from typing import Any

import psycopg
import pytest
import redis

from locking.terms import LockLost, LockTimeout, LockUnavailable
from locking.tests.conformance.backends import (
    Backend,
    Etcd,
    Memcached,
    PostgresAdvisory,
    PostgresRow,
    PostgresTransaction,
    RedlockOnValkey,
    ZooKeeper,
)
from locking.tests.conformance.conftest import Deployment, deploy
from locking.tests.helpers import Task, eventually

INSERT = "INSERT INTO work VALUES (%s)"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Deployment]:
    yield from deploy(PostgresAdvisory)


@pytest.fixture(scope="module")
def etcd() -> Iterator[Deployment]:
    yield from deploy(Etcd)


@pytest.fixture(scope="module")
def memcached() -> Iterator[Deployment]:
    yield from deploy(Memcached)


@pytest.fixture
def zookeeper() -> Iterator[Deployment]:
    yield from deploy(ZooKeeper)


@pytest.fixture
def redlock() -> Iterator[Deployment]:
    yield from deploy(RedlockOnValkey)


def test_redlock_works_while_a_minority_of_its_servers_is_down(
    redlock: Deployment, name: str
) -> None:
    held = redlock.here.lock(name + "-held").acquire(0)
    for server in redlock.servers[:2]:
        server.kill()
    with pytest.raises(LockTimeout):
        redlock.here.lock(name + "-held").acquire(0)
    held.extend(10)
    held.release()
    with redlock.here.lock(name).acquire(1), pytest.raises(LockTimeout):
        redlock.here.lock(name).acquire(0)


def test_redlock_is_unavailable_without_a_majority_and_leaves_nothing(
    redlock: Deployment, name: str
) -> None:
    lease = redlock.here.lock(name + "-held").acquire(0)
    for server in redlock.servers[:3]:
        server.kill()
    with pytest.raises(LockUnavailable):
        redlock.here.lock(name).acquire(5)
    with pytest.raises(LockUnavailable):
        lease.extend(60)
    with pytest.raises(LockUnavailable):
        redlock.here.lock(name + "-held").owner()
    for server in redlock.servers[:3]:
        server.start()
    assert redlock.here.traces(name) == [f"redlock:{name}-held"] * 2
    # Three of five have forgotten it, so it is lost, and the other two are cleaned up.
    with pytest.raises(LockLost):
        lease.release()
    assert redlock.here.traces(name) == []


@pytest.mark.parametrize("kind", [PostgresTransaction, PostgresRow])
def test_work_and_lock_end_in_one_commit(
    postgres: Deployment, name: str, kind: type[Backend]
) -> None:
    here = kind(postgres.endpoints)
    with here.lock("make the table").acquire(0) as lease:
        connection: Any = lease.connection  # type: ignore[attr-defined]
        connection.execute("CREATE TABLE IF NOT EXISTS work (name text)")
    with here.lock(name).acquire(0) as lease:
        connection = lease.connection  # type: ignore[attr-defined]
        connection.execute(INSERT, (name,))
    with pytest.raises(psycopg.errors.DivisionByZero), here.lock(name).acquire(0) as lease:
        lease.connection.execute(INSERT + " RETURNING 1/0", (name,))  # type: ignore[attr-defined]
    with here.lock(name).acquire(0) as lease:
        connection = lease.connection  # type: ignore[attr-defined]
        rows = connection.execute("SELECT count(*) FROM work WHERE name = %s", (name,)).fetchone()
    assert rows == (1,)
    here.close()


@pytest.mark.parametrize("kind", [PostgresTransaction, PostgresRow])
def test_a_transaction_that_failed_unnoticed_is_not_taken_for_committed(
    postgres: Deployment, name: str, kind: type[Backend]
) -> None:
    here = kind(postgres.endpoints)
    lease = here.lock(name).acquire(0)
    with pytest.raises(psycopg.errors.DivisionByZero):
        lease.connection.execute("SELECT 1/0")  # type: ignore[attr-defined]
    with pytest.raises(LockLost):
        lease.release()
    here.lock(name).acquire(0).release()
    here.close()


def test_a_forked_child_does_not_end_its_parents_lock(postgres: Deployment, name: str) -> None:
    postgres.here.lock(name + "-before").acquire(0).release()  # leaves an idle connection
    lease = postgres.here.lock(name).acquire(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 on, if threads run
        child = os.fork()
    if child == 0:
        status = 1
        try:
            postgres.here.lock(name + "-child").acquire(0).release()
            postgres.here.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    lease.check()
    with pytest.raises(LockTimeout):
        postgres.here.lock(name).acquire(0)
    lease.release()
    postgres.here.lock(name + "-before").acquire(0).release()


def test_the_check_of_an_advisory_lock_sees_that_its_connection_ended(
    postgres: Deployment, name: str
) -> None:
    lease = postgres.here.lock(name).acquire(0)
    lease.check()
    assert postgres.here.lock(name).force_release("for the test")
    with pytest.raises(LockLost):
        eventually(lambda: lease.check())
    with pytest.raises(LockLost):
        lease.release()


@pytest.mark.long
def test_etcd_lets_nobody_in_without_a_client_certificate(etcd: Deployment) -> None:
    import requests  # which comes with etcd's client

    endpoint = etcd.endpoints[0]
    url = f"https://{endpoint['host']}:{endpoint['port']}/health"
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(url, verify=endpoint["ca_cert"], timeout=5)
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(url, cert=(endpoint["cert_cert"], endpoint["cert_key"]), timeout=5)


@pytest.mark.long
def test_an_etcd_waiter_that_gives_up_leaves_no_lease(etcd: Deployment, name: str) -> None:
    client: Any = etcd.here.client

    def leases() -> int:
        return len(client.post(client.get_url("lease/leases"), json={}).get("leases", []))

    before = leases()
    with etcd.here.lock(name).acquire(0) as lease:
        with pytest.raises(LockTimeout):
            etcd.here.lock(name).acquire(0.1)
        lease.extend(60)
        assert leases() == before + 1
    assert leases() == before


@pytest.mark.long
def test_a_waiter_interrupted_before_etcds_answer_to_its_key_leaves_no_key(
    etcd: Deployment, name: str
) -> None:
    def interrupt(answer: Any, *_: object, **__: object) -> None:
        if answer.url.endswith("kv/put"):
            assert etcd.here.traces(name) != []
            raise KeyboardInterrupt

    lock: Any = etcd.here.lock(name)
    lock.client.session.hooks["response"] = [interrupt]
    try:
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(0)
    finally:
        lock.client.session.hooks["response"] = []
    assert etcd.here.traces(name) == []


@pytest.mark.long
def test_an_etcd_waiter_keeps_its_place_for_longer_than_its_lease(
    etcd: Deployment, name: str
) -> None:
    holder = etcd.here.lock(name).acquire(0)
    with pytest.raises(LockTimeout):
        etcd.here.lock(name, lease=1.0).acquire(3.0)
    holder.release()


def test_a_memcached_lock_that_was_evicted_is_lost_and_not_made_again(
    memcached: Deployment, name: str
) -> None:
    client: Any = memcached.here.client
    lease = memcached.here.lock(name).acquire(0)
    client.flush_all(noreply=False)
    with pytest.raises(LockLost):
        lease.extend(10)
    assert memcached.here.traces(name) == []
    # The counter of the tokens went as well, and starts higher.
    later = memcached.here.lock(name).acquire(0)
    assert lease.token is not None
    assert later.token is not None
    assert later.token > lease.token
    later.release()


@pytest.mark.parametrize("seconds", [31 * 86_400, 30 * 86_400])
def test_memcached_takes_no_lease_for_a_date(
    memcached: Deployment, name: str, seconds: float
) -> None:
    """An expiry of more than 30 days is a date to it, in 1970, and so the item is gone at once."""
    with pytest.raises(ValueError, match="at most 2591999 s"):
        memcached.here.lock(name, lease=seconds)
    with memcached.here.lock(name, lease=30 * 86_400 - 1).acquire(0) as lease:
        for senseless in (seconds, 0):
            with pytest.raises(ValueError, match="at most 2591999 s"):
                lease.extend(senseless)
        lease.extend(30 * 86_400 - 1)
        with pytest.raises(LockTimeout):
            memcached.here.lock(name).acquire(0)


def test_redlock_knows_the_holder_also_where_its_clients_decode(
    redlock: Deployment, name: str
) -> None:
    from locking.backends.redlock import RedLock

    clients = [redis.Redis.from_url(url, decode_responses=True) for url in redlock.endpoints]
    lock = RedLock(clients, name, owner="me")
    with lock:
        assert lock.locked()
        assert lock.owner() == "me"
    assert not lock.locked()
    with pytest.raises(ValueError, match="at least 1 ms"):
        RedLock(clients, name, lease=inf)
    with pytest.raises(ValueError, match="odd"):
        RedLock(clients[:4], name)
    for client in clients:
        client.close()


def test_redlock_waits_for_its_silent_servers_together(
    redlock: Deployment, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locking.backends.redlock.TIMEOUT", 0.5)
    here = RedlockOnValkey(redlock.endpoints)
    here.lock(name).acquire(0).release()
    processes = [server.process for server in redlock.servers if server.process is not None]
    try:
        for process in processes[:2]:
            process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        lease = here.lock(name).acquire(0)
        assert time.monotonic() - began < 0.9
        lease.release()
    finally:
        for process in processes[:2]:
            process.send_signal(signal.SIGCONT)
    here.close()


@pytest.mark.long
def test_zookeeper_a_waiter_whose_session_ended_joins_the_queue_again(zookeeper: Deployment):
    from locking.backends.zookeeper import ZooKeeperLock

    lock = zookeeper.here.lock("rejoin")
    assert isinstance(lock, ZooKeeperLock)
    with lock.acquire(5):
        waiting = Task(lambda: zookeeper.here.lock("rejoin").acquire(60).release())
        eventually(lambda: lock.waiters() == 1)
        [_, place] = lock._queue()
        lock.client.delete(f"{lock.path}/{place}")  # as the end of its session does
        eventually(lambda: lock.waiters() == 0)
    waiting.result()


class Interrupting:
    """A socket during whose `send` a Ctrl-C arrives, which reaches the main thread only."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def send(self, data: bytes) -> int:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return int(self._socket.send(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@pytest.mark.long
def test_zookeeper_no_interrupt_reaches_kazoo_while_it_sends(zookeeper: Deployment) -> None:
    """kazoo swallows it there."""
    lock = zookeeper.here.lock("interrupted")
    assert isinstance(zookeeper.here, ZooKeeper)
    connection = zookeeper.here.client._connection
    connection._write_sock = Interrupting(connection._write_sock)
    try:
        lock.acquire(5).release()
    finally:
        connection._write_sock = connection._write_sock._socket


def test_zookeeper_a_server_that_takes_a_connection_and_is_silent_is_given_up() -> None:
    pytest.importorskip("kazoo")
    from locking.backends.zookeeper import ANSWER_TIMEOUT, zookeeper_client

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(5 * ANSWER_TIMEOUT)  # a third of the session
        client = zookeeper_client(f"127.0.0.1:{silent.getsockname()[1]}", 15 * ANSWER_TIMEOUT)
        client.start_async()
        try:
            connections = [silent.accept()[0] for _ in range(2)]
        finally:
            client.stop()
            client.close()
        for connection in connections:
            connection.close()
