"""What only one backend promises."""

from __future__ import annotations

import time
from math import inf
from typing import Any

import psycopg
import pytest
import redis

from locking import LockLost, LockTimeout, LockUnavailable
from locking.tests.conformance.backends import (
    Etcd,
    Memcached,
    PostgresAdvisory,
    PostgresTransaction,
    RedlockOnValkey,
)
from locking.tests.conformance.conftest import Deployment, only
from locking.tests.helpers import PROCESSES, eventually


@only(RedlockOnValkey)
def test_redlock_works_while_a_minority_of_its_servers_is_down(deployment, lock):
    held = lock.acquire(0)
    with deployment.down(2):
        with pytest.raises(LockTimeout):
            lock.acquire(0)
        held.extend(10)
        held.release()
        with lock.acquire(1), pytest.raises(LockTimeout):
            lock.acquire(0)


@only(RedlockOnValkey)
def test_redlock_without_a_majority_leaves_nothing(deployment, lock, name):
    lease = lock.acquire(0)
    other = deployment.here.lock(f"{name}-free")
    with deployment.down(3):
        for call in (lambda: other.acquire(5), lambda: lease.extend(60), lock.owner):
            with pytest.raises(LockUnavailable):
                call()
    assert deployment.here.traces(name) == [f"redlock:{name}"] * 2
    # Three of five have forgotten it, so it is lost, and the other two are cleaned up.
    with pytest.raises(LockLost):
        lease.release()
    assert deployment.here.traces(name) == []


@only(RedlockOnValkey)
def test_redlock_lease_is_not_lost_while_a_server_is_silent(deployment, lock, name):
    lease = lock.acquire(0)
    for client in deployment.here.client[:2]:
        client.delete(f"redlock:{name}")  # as if the lock had been granted by the other three
    with deployment.servers[4].stopped():
        for call in (lambda: lease.extend(60), lease.release):
            with pytest.raises(LockUnavailable, match="1 of 5 servers do not answer"):
                call()
    lease.release()
    assert deployment.here.traces(name) == []


@only(RedlockOnValkey)
def test_redlock_extension_allows_for_drift(deployment, lock, name):
    with lock.acquire(0) as lease:
        lease.extend(100)
        kept = [client.pttl(f"redlock:{name}") for client in deployment.here.client]
    assert min(kept) > 100_500, "the servers' clocks may run a hundredth faster than ours"


@only(Memcached, RedlockOnValkey, Etcd)
def test_lease_counts_from_before_its_command_was_sent(lock, monkeypatch):
    sent = list[float]()

    def note(command: str) -> None:
        send = getattr(lock, command)

        def noted(*args: Any) -> Any:
            sent.append(time.monotonic())
            return send(*args)

        monkeypatch.setattr(lock, command, noted)

    note("_try")
    lease: Any = lock.acquire(0)
    assert lease._deadline <= sent[-1] + lock.seconds
    if lock.capabilities.extend:
        note("_prolong")
        lease.extend(lock.seconds)
        assert len(sent) == 2
        assert lease._deadline <= sent[-1] + lock.seconds
    lease.release()


@only(PostgresAdvisory, PostgresTransaction)
def test_holders_statements_have_no_lock_timeout(lock):
    with lock.acquire(5) as lease:
        assert lease.connection.execute("SHOW lock_timeout").fetchone() == ("0",)


@only(RedlockOnValkey)
def test_redlock_knows_the_holder_also_where_its_clients_decode(deployment, name):
    from locking.backends.redlock import RedLock

    clients = [redis.Redis.from_url(url, decode_responses=True) for url in deployment.endpoints]
    lock = RedLock(clients, name, owner="me")
    with lock:
        assert lock.locked()
        assert lock.owner() == "me"
    assert not lock.locked()
    with pytest.raises(ValueError, match="a lease lasts from"):
        RedLock(clients, name, lease=inf)
    with pytest.raises(ValueError, match="odd"):
        RedLock(clients[:4], name)
    for client in clients:
        client.close()


@only(PostgresTransaction)
def test_work_and_lock_end_in_one_commit(lock, name):
    with lock.acquire(0) as lease:
        lease.connection.execute(f'CREATE TABLE "{name}" AS SELECT 1')
    with pytest.raises(ZeroDivisionError), lock.acquire(0) as lease:
        assert lease.connection.execute(f'INSERT INTO "{name}" VALUES (2)').rowcount / 0
    with lock.acquire(0) as lease:
        assert lease.connection.execute(f'TABLE "{name}"').fetchall() == [(1,)]


@only(PostgresTransaction)
def test_failed_transaction_is_not_taken_for_committed(lock):
    lease = lock.acquire(0)
    with pytest.raises(psycopg.errors.DivisionByZero):
        lease.connection.execute("SELECT 1/0")
    with pytest.raises(LockLost):
        lease.release()
    lock.acquire(0).release()


def use_and_close(deployment: Deployment, name: str) -> None:
    deployment.here.lock(name).acquire(0).release()
    deployment.here.close()


@only(PostgresAdvisory)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_lock_survives_the_end_of_a_forked_child(deployment, lock, name):
    deployment.here.lock(f"{name}-before").acquire(0).release()  # leaves an idle connection
    lease = lock.acquire(0)
    fork = PROCESSES.get_context("fork")
    child = fork.Process(target=use_and_close, args=(deployment, f"{name}-child"))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    lease.check()
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    lease.release()
    deployment.here.lock(f"{name}-before").acquire(0).release()


@only(PostgresAdvisory)
def test_advisory_lock_check_sees_that_its_connection_ended(lock):
    lease = lock.acquire(0)
    lease.check()
    assert lock.force_release("for the test")
    with pytest.raises(LockLost):
        eventually(lambda: lease.check())
    with pytest.raises(LockLost):
        lease.release()


@only(Memcached)
def test_memcached_lock_that_was_evicted_is_lost(deployment, lock, name):
    lease = lock.acquire(0)
    deployment.here.client.flush_all(noreply=False)
    with pytest.raises(LockLost):
        lease.extend(10)
    assert deployment.here.traces(name) == []
    lock.acquire(0).release()


@only(Memcached)
@pytest.mark.parametrize("seconds", [31 * 86_400, 30 * 86_400])
def test_memcached_takes_no_lease_for_a_date(deployment, name, seconds):
    """An expiry of more than 30 days is a date to it, in 1970, and so the item is gone at once."""
    with pytest.raises(ValueError, match="to 2591999 seconds"):
        deployment.here.lock(name, lease=seconds)
    with deployment.here.lock(name, lease=30 * 86_400 - 1).acquire(0) as lease:
        for senseless in (seconds, 0):
            with pytest.raises(ValueError, match="to 2591999 seconds"):
                lease.extend(senseless)
        lease.extend(30 * 86_400 - 1)
        with pytest.raises(LockTimeout):
            deployment.here.lock(name).acquire(0)


@only(Etcd)
def test_etcd_lets_nobody_in_without_a_client_certificate(deployment):
    import requests  # which comes with etcd's client

    endpoint = deployment.endpoints[0]
    url = f"https://{endpoint['host']}:{endpoint['port']}/health"
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(url, verify=endpoint["ca_cert"], timeout=5)
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(url, cert=(endpoint["cert_cert"], endpoint["cert_key"]), timeout=5)


@only(Etcd)
def test_etcd_waiter_that_gives_up_leaves_no_lease(deployment, lock):
    client = deployment.here.client

    def leases() -> int:
        return len(client.post(client.get_url("lease/leases"), json={}).get("leases", []))

    before = leases()
    with lock.acquire(0):
        with pytest.raises(LockTimeout):
            lock.acquire(0.1)
        assert leases() == before + 1
    assert leases() == before
