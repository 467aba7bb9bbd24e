"""What the log says of a Redis that goes away and comes back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from inventory.redis import Circuit, DegradableLock, circuit
from inventory.selling.hint import hint
from locking.tests.helpers import eventually
from locking.tests.servers import Valkey

PATIENCE = 30.0
"""Seconds: a busy machine is no outage. A server that is gone refuses connections at once."""

LOCK = DegradableLock("logged", lease=PATIENCE, timeout=PATIENCE)
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


def use(number: int) -> None:
    """Use Redis as a purchase does."""
    hint().read(number)
    with LOCK.hold(number):
        pass


def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(
    server: Valkey, warnings: Callable[[], list[str]]
) -> None:
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


def test_what_was_asked_before_the_outage_began_or_ended_does_not_change_it(
    warnings: Callable[[], list[str]],
) -> None:
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


def test_an_outage_that_lasts_is_logged_again(
    warnings: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
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
