"""Redis that goes away and comes back: circuit breaker and degradable lock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from development.servers import Valkey, free_port
from inventory.redis import ITEM_LOCK, Circuit, DegradableLock, circuit
from inventory.tests.helpers import counted
from inventory.tests.own_redis import PATIENCE, client
from locking import LockUnavailable
from locking.redis_lock import RedisLease
from locking.tests.helpers import eventually
from locking.tests.topologies import cluster_url

CALLERS = 16


@pytest.fixture
def server(settings: Any) -> Iterator[Valkey]:
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


def test_outage_is_logged_when_it_begins_and_when_it_ends(server, warnings):
    lock = DegradableLock("logged", lease=PATIENCE, timeout=PATIENCE)

    def use(number: int) -> None:
        """Use Redis as a purchase does."""
        circuit().ask(client().ping, otherwise=None)
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


def test_outage_ignores_answers_to_earlier_commands(warnings):
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


def test_outage_that_lasts_is_logged_again(warnings, monkeypatch):
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


def test_outage_is_probed_by_one_caller_after_a_pause(monkeypatch):
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


def test_outage_does_not_begin_with_an_error_of_the_command():
    breaker = Circuit()
    with pytest.raises(ZeroDivisionError):
        breaker.ask(lambda: 1 / 0, otherwise=0.0)
    assert not breaker.open


# --- the lock that its callers can do without ---------------------------------------------------


LOCK = DegradableLock("degradable", lease=5.0, timeout=0.1)


def test_lost_lock_is_counted_and_costs_its_holder_nothing():
    before = counted("inventory_lock_lost_total")
    with LOCK.hold(1) as token:
        assert token is not None
        LOCK.make(1).force_release("a test")
    assert counted("inventory_lock_lost_total") == before + 1


def test_holder_that_waits_too_long_goes_on_without_the_lock():
    with LOCK.hold(2) as token, LOCK.hold(2) as second:
        assert token is not None
        assert second is None
    with LOCK.hold(2) as third:
        assert third is not None


def test_release_without_an_answer_begins_an_outage(monkeypatch):
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


def test_project_without_redis_sells_without_locks(settings):
    settings.INVENTORY_REDIS = ""
    before = counted("inventory_without_lock_total")
    with LOCK.hold(5) as token:
        assert token is None
    assert counted("inventory_without_lock_total") == before + 1
    assert not circuit().open, "no answer is missing"
    with pytest.raises(LockUnavailable):
        LOCK.make(5)


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


def test_locks_are_kept_on_the_nodes_of_a_cluster(settings, cluster_url: str):
    settings.REDIS_URL = cluster_url
    assert has_tokens() == [True] * len(ITEMS)


@pytest.mark.parametrize("url", ["redis://{}/0", "redis+cluster://{},{}"])
def test_process_starts_without_redis_and_without_locks(url, settings):
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    settings.REDIS_URL = url.format(*addresses)
    assert has_tokens() == [False] * len(ITEMS)
