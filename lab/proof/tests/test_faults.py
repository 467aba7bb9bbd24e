"""Each fault of a server, injected into a real one and healed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace

import psycopg
import pytest
import redis

from development.embedded import EmbeddedServers, private_servers
from lab.stack import proxies
from loadtest.fault_needs import DATABASE_PROXY, REDIS_PROXY
from loadtest.faults import FAULTS, Target
from loadtest.faults.fault import Fault, wait_until
from loadtest.faults.postgres import answers
from loadtest.faults.redis import connect

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedServers]:
    with private_servers(durable=False) as servers:
        yield servers


@pytest.fixture(scope="module")
def target(servers: EmbeddedServers) -> Iterator[Target]:
    urls = servers.urls
    with ExitStack() as cleanup:
        controls = {
            REDIS_PROXY: proxies.proxy(urls.redis, cleanup),
            DATABASE_PROXY: proxies.proxy(urls.database, cleanup, "--postgres"),
        }
        yield Target(
            web="",
            shop=0,
            database=urls.database,
            database_folder=str(servers.postgres.data),
            redis=urls.redis,
            broker=urls.broker,
            redis_proxy=controls[REDIS_PROXY][1],
            database_proxy=controls[DATABASE_PROXY][1],
            # For the tests' own clients, by way of the proxies.
            failpoints=proxies.by_way_of(urls.redis, controls[REDIS_PROXY][0]),
            clock=proxies.by_way_of(urls.database, controls[DATABASE_PROXY][0]),
        )


@contextmanager
def injected(name: str, target: Target) -> Iterator[Fault]:
    fault = FAULTS[name](target, Random(1))
    try:
        fault.inject()
        yield fault
    finally:
        fault.heal()


def by_proxy(target: Target) -> redis.Redis:
    return redis.Redis.from_url(target.failpoints, socket_timeout=0.3, socket_connect_timeout=5)


def test_killed_redis_comes_back_empty(target: Target) -> None:
    with connect(target.redis) as client:
        client.set("kept", 1)
        before = client.info("server")["process_id"]
    with injected("redis-killed", target) as fault:
        pass
    with connect(target.redis) as client:
        assert client.get("kept") is None
        assert fault.did["killed"] == [before]
        assert client.info("server")["process_id"] != before


def test_paused_redis_does_not_answer_until_it_is_healed(target: Target) -> None:
    with (
        injected("redis-paused", target),
        by_proxy(target) as client,
        pytest.raises(redis.TimeoutError),
    ):
        client.ping()
    with by_proxy(target) as client:
        assert client.ping()


def test_full_redis_refuses_writes_and_forgets_nothing(target: Target) -> None:
    with connect(target.redis) as client:
        client.set("kept", 1)
        before = client.config_get("maxmemory")
        with injected("redis-full", target) as fault:
            with pytest.raises(redis.OutOfMemoryError):
                client.set("more", 1)
            assert client.get("kept") == b"1"
        assert client.set("more", 1)
        assert fault.did["writes refused"] == 1
        assert client.config_get("maxmemory") == before


def test_redis_faults_of_the_network_affect_only_the_shop(target: Target) -> None:
    for name, problem in {
        "redis-mute": redis.TimeoutError,
        "redis-reset": redis.ConnectionError,
    }.items():
        with injected(name, target) as fault:
            with by_proxy(target) as client, pytest.raises(problem):
                client.ping()
            with connect(target.redis) as client:
                assert client.ping()
        with by_proxy(target) as client:
            assert client.ping()
        assert max(number for number in fault.did.values()) > 0


def test_failover_of_redis_loses_the_last_writes(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    with by_proxy(target) as client:
        client.set("early", 1)
    writes, written = threading.Event(), threading.Semaphore(0)

    def wait_for_writes(_seconds: float) -> None:
        while written.acquire(blocking=False):
            pass
        # The next one may have begun before the replica was promoted; the second one has not.
        for _write in range(2):
            assert written.acquire(timeout=60)

    monkeypatch.setattr("loadtest.faults.redis.time", SimpleNamespace(sleep=wait_for_writes))

    def write() -> None:
        with connect(target.redis) as client:
            number = 0
            while not writes.is_set():
                number += 1
                try:
                    client.set("late", number)
                except redis.RedisError:
                    return
                written.release()
                time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    with injected("redis-failover", target) as fault:
        writes.set()
        writer.join()
        with by_proxy(target) as client:
            assert client.get("early") == b"1"
            client.set("meanwhile", 1)
    assert fault.did["bytes of writes lost"] > 0
    with connect(target.redis) as client:
        assert client.get("early") == client.get("meanwhile") == b"1", "it went back with its data"
        assert client.info("replication")["role"] == "master"


@pytest.mark.parametrize("name", ["postgres-killed", "postgres-restarted"])
def test_killed_server_comes_back_with_what_was_committed(name: str, target: Target) -> None:
    with psycopg.connect(target.database, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        with injected(name, target) as fault:
            pass
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert fault.did.get("killed") or fault.did.get("stopped")
    with psycopg.connect(target.database) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() != (0,)


def test_terminated_backends_lose_their_connection(target: Target) -> None:
    with (
        psycopg.connect(target.database) as connection,
        injected("postgres-terminated", target) as fault,
        pytest.raises(psycopg.OperationalError),
    ):
        connection.execute("SELECT 1")
    assert fault.did["ended"] >= 1


def test_taken_connections_leave_none_to_the_shop(target: Target) -> None:
    with injected("postgres-exhausted", target) as fault:
        # It has to take the one that it had asked by itself, too.
        wait_until("none is left", lambda: not answers(target.database), 10)
    assert answers(target.database)
    assert fault.did["taken"] > 100


def test_lost_commit_answer_reaches_nobody(target: Target) -> None:
    with psycopg.connect(target.database, autocommit=True) as connection:
        connection.execute("CREATE TABLE lost (value int)")
    ends: list[bool] = []
    enough = threading.Event()
    committing = threading.Thread(target=commit_until, args=[enough, target.clock, ends])
    committing.start()
    with injected("commit-lost", target) as fault:
        enough.set()
        committing.join()
    with psycopg.connect(target.database) as connection:
        row = connection.execute("SELECT array_agg(value) FROM lost").fetchone()
    assert row is not None
    written = set(row[0] or ())
    confirmed = {value for value, ok in enumerate(ends) if ok}
    assert confirmed <= written, "what was confirmed is written"
    assert len(written - confirmed) == fault.did["replies lost"]
    assert len(ends) - len(written) == fault.did["commits lost"]
    assert fault.did["commits lost"] + fault.did["replies lost"] >= 1


def commit_until(enough: threading.Event, url: str, ends: list[bool]) -> None:
    """Write one row after the other, and down whether its commit was answered."""
    while not enough.is_set():
        try:
            with psycopg.connect(url) as connection:
                connection.execute("INSERT INTO lost VALUES (%s)", [len(ends)])
        except psycopg.OperationalError:
            ends.append(False)
        else:
            ends.append(True)


def test_emptied_broker_has_lost_its_messages(target: Target) -> None:
    with connect(target.broker) as client:
        client.lpush("followup", "message")
        with injected("broker-emptied", target) as fault:
            pass
        assert client.dbsize() == 0
        assert fault.did["keys"] >= 1
