"""Redis that goes away, comes back, or fails over: circuit breaker, degradable lock and hints."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis import RedisCluster

from inventory.metrics import metrics
from inventory.outcomes import Level
from inventory.redis import (
    ITEM_LOCK,
    Circuit,
    DegradableLock,
    Nodes,
    Server,
    circuit,
    client,
)
from inventory.redis import server as servers_known
from inventory.selling.hint import LIFETIME, Hint, hint, register_of
from locking import LockUnavailable
from locking.backends.redis import RedisLease
from locking.tests.helpers import eventually
from locking.tests.servers import Valkey, free_port
from locking.tests.topologies import cluster_url

PATIENCE = 30.0
"""Seconds: a busy machine is no outage. A server that is gone refuses connections at once."""

CALLERS = 16


@pytest.fixture
def server(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Valkey]:
    for name in ("TIMEOUT", "CONNECT_TIMEOUT"):
        monkeypatch.setattr(f"inventory.redis.{name}", PATIENCE)
    with Valkey() as server:
        assert isinstance(server, Valkey)
        settings.REDIS_URL = server.endpoint
        yield server


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return the warnings since the last call."""
    caplog.set_level(logging.WARNING, logger="inventory.redis")

    def take() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return take


def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(server, warnings):
    lock = DegradableLock("logged", lease=PATIENCE, timeout=PATIENCE)

    def use(number: int) -> None:
        """Use Redis as a purchase does."""
        hint().read(number)
        with lock.hold(number):
            pass

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(use, range(100)))
        assert warnings() == []
        for _ in range(2):
            server.kill()
            eventually(lambda: pool.submit(use, 0).result() or circuit().open, PATIENCE)
            list(pool.map(use, range(100)))
            [began] = warnings()
            assert began.startswith("Redis does not answer")
            server.start()
            eventually(lambda: pool.submit(use, 0).result() or not circuit().open, PATIENCE)
            list(pool.map(use, range(100)))
            [ended] = warnings()
            assert ended.startswith("Redis answers again")


def test_what_was_asked_before_the_outage_began_or_ended_does_not_change_it(warnings):
    breaker = Circuit()

    def fail() -> str:
        raise redis.ConnectionError

    def slow_success() -> str:
        breaker.ask(fail, otherwise="")
        return "asked before Redis went away"

    assert breaker.ask(slow_success, otherwise="") == "asked before Redis went away"
    assert breaker.open

    def slow_failure() -> str:
        breaker._retry_at = 0.0
        breaker.ask(lambda: "it is back", otherwise="")
        raise redis.TimeoutError

    breaker._retry_at = 0.0
    assert breaker.ask(slow_failure, otherwise="nothing") == "nothing"
    assert not breaker.open
    assert [each[:17] for each in warnings()] == ["Redis does not an", "Redis answers aga"]


def test_an_outage_that_lasts_is_logged_again(warnings, monkeypatch):
    def down() -> None:
        raise redis.ConnectionError

    broken = Circuit()
    monkeypatch.setattr("inventory.redis.RETRY_AFTER", 0)
    for _ in range(3):
        broken.ask(down, None)
    assert [each[:17] for each in warnings()] == ["Redis does not an"]
    monkeypatch.setattr("inventory.redis.REMIND_AFTER", 0)
    broken._remind_at = 0
    for _ in range(2):
        broken.ask(down, None)
    assert [each[:22] for each in warnings()] == ["Redis has not answered"] * 2


def test_a_redis_that_failed_is_skipped_for_a_while_and_then_probed_by_one_caller(monkeypatch):
    now, asked, breaker = 0.0, [], Circuit()
    monkeypatch.setattr("inventory.redis.time", SimpleNamespace(monotonic=lambda: now))

    def fail() -> str:
        asked.append(now)
        if breaker.open:
            assert breaker.ask(fail, otherwise="another") == "another", "it does not probe too"
        raise redis.ConnectionError

    for now in (0.0, 0.1, 0.9, 1.1, 1.2, 2.2):  # noqa: B007  # the clock reads it
        assert breaker.ask(fail, otherwise="no answer") == "no answer"
    assert (asked, breaker.open) == ([0.0, 1.1, 2.2], True)
    now = 3.3
    assert breaker.ask(lambda: "answer", otherwise="") == "answer"
    assert not breaker.open


def test_a_mistake_in_the_question_is_no_outage():
    breaker = Circuit()
    with pytest.raises(ZeroDivisionError):
        breaker.ask(lambda: 1 / 0, otherwise=0.0)
    assert not breaker.open


# --- the lock that its callers can do without ---------------------------------------------------


LOCK = DegradableLock("degradable", lease=5.0, timeout=0.1)


def test_a_lock_that_was_lost_is_counted_and_costs_its_holder_nothing():
    before = metrics.read().get("lock_lost", 0)
    with LOCK.hold(1) as token:
        assert token is not None
        LOCK.make(1).force_release("a test")
    assert metrics.read()["lock_lost"] == before + 1


def test_who_waits_too_long_goes_on_without_the_lock():
    with LOCK.hold(2) as token, LOCK.hold(2) as second:
        assert token is not None
        assert second is None
    with LOCK.hold(2) as third:
        assert third is not None


def test_a_release_that_redis_does_not_answer_spares_the_next_caller_the_wait(monkeypatch):
    release = RedisLease.release

    def unanswered(lease: RedisLease) -> None:
        release(lease)
        raise LockUnavailable("Redis does not answer")

    circuit.cache_clear()
    with LOCK.hold(3):
        monkeypatch.setattr(RedisLease, "release", unanswered)
    assert circuit().open
    with LOCK.hold(4) as token:
        assert token is None, "Redis was not asked"
    circuit.cache_clear()


# --- Redis Cluster ------------------------------------------------------------------------------


__all__ = ["cluster_url"]

ITEMS = range(5)
"""On several nodes."""


def has_tokens() -> list[bool]:
    found = []
    for item in ITEMS:
        with ITEM_LOCK.hold(item) as token:
            found.append(token is not None)
    return found


def test_locks_and_hints_are_kept_on_the_nodes_of_a_cluster(settings, cluster_url: str):
    settings.REDIS_URL = cluster_url
    assert has_tokens() == [True] * len(ITEMS)
    for item in ITEMS:
        assert hint().publish(item, Level(item, 1))
    assert [hint().read(item) for item in ITEMS] == [Level(item, 1) for item in ITEMS]


def test_a_hint_of_a_node_that_has_just_taken_over_is_not_believed(settings, cluster_url: str):
    settings.REDIS_URL = f"{cluster_url},127.0.0.1:1"
    hint().publish(7, Level(0, 1))
    assert hint().read(7) == Level(0, 1)
    cluster, nodes = client(), servers_known()
    assert isinstance(cluster, RedisCluster)
    assert isinstance(nodes, Nodes)
    name = cluster.get_node_from_key(register_of(7)).name
    was = nodes._known.pop(name)
    assert hint().read(7) is None, "the node was a replica until now"
    nodes._known[name] = b"another", was[1]
    assert hint().read(7) is None, "the node was restarted"
    nodes._known[name] = was
    assert hint().read(7) == Level(0, 1)


@pytest.mark.parametrize("url", ["redis://{}/0", "redis+cluster://{},{}"])
def test_a_process_can_start_while_no_server_answers_and_goes_on_without_locks(url, settings):
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    settings.REDIS_URL = url.format(*addresses)
    assert has_tokens() == [False] * len(ITEMS)
    assert hint().read(7) is None
    assert not hint().publish(7, Level(0, 1))


# --- a replica takes over that lacks the last writes --------------------------------------------


ITEM = 7


class Process:
    """A web process: its client, its server tracker and its hint."""

    def __init__(self, port: int, *, careful: bool = True) -> None:
        self.server = Server()
        self.client = redis.Redis(
            port=port,
            socket_timeout=2,
            redis_connect_func=self.server.meet,  # type: ignore[arg-type]  # redis-py's own is wrong
        )
        self.hint = Hint(self.client, Circuit(), self.server if careful else None)

    def is_led_to(self, port: int) -> None:
        """Fail over as a proxy or a DNS name does: the old connections break."""
        self.client.connection_pool.disconnect()
        self.client.connection_pool.connection_kwargs["port"] = port
        for connection in self.client.connection_pool._available_connections:
            connection.port = port


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """A primary and the replica that will take over, with the same old hint."""
    with ExitStack() as cleanup:
        primary, replica = (cleanup.enter_context(Valkey()).port for _ in range(2))
        for port in (primary, replica):
            old = Process(port)
            old.hint.publish(ITEM, Level(0, 5))
            old.client.close()
        yield primary, replica


@pytest.mark.parametrize(
    ("careful", "believed"), [(True, None), (False, Level(0, 5))], ids=["", "negative control"]
)
def test_an_old_hint_of_a_promoted_replica_is_not_believed(careful, believed, ports):
    """It lacks a restock that was acknowledged, until its old hints have ended."""
    process = Process(ports[0], careful=careful)
    assert process.hint.read(ITEM) == Level(0, 5)
    assert process.hint.publish(ITEM, Level(9, 6))
    process.is_led_to(ports[1])
    assert process.hint.read(ITEM) == believed
    process.server._since = time.monotonic() - LIFETIME
    process.hint.publish(ITEM, Level(0, 12))
    assert process.hint.read(ITEM) == Level(0, 12)
    process.client.close()


def test_new_connections_to_the_same_server_change_nothing(ports):
    process = Process(ports[0])
    for _ in range(3):
        assert process.hint.read(ITEM) == Level(0, 5)
        process.client.connection_pool.disconnect()
    process.client.close()


def test_a_server_without_an_id_may_be_another_each_time(ports):
    process = Process(ports[0])
    with redis.Redis(port=ports[0]) as admin:
        admin.execute_command("ACL", "SETUSER", "default", "-info")
        assert process.hint.read(ITEM) is None
        admin.execute_command("ACL", "SETUSER", "default", "+info")
    process.client.close()
