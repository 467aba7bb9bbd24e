"""Health checks: what an outage of each server answers, and how long a check may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from shop.operating import health
from shop.tests.processes import wait_for


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(health, "MAX_SECONDS", 60.0)  # a busy machine is no outage
    health._last.clear()
    yield
    health._last.clear()


def fail() -> None:
    raise ConnectionError


def break_server(monkeypatch: pytest.MonkeyPatch, name: str, how: Callable[[], Any]) -> None:
    monkeypatch.setattr(health, "SERVERS", {**health.SERVERS, name: how})


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
def test_a_live_process_asks_no_server(
    path: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in health.SERVERS:
        break_server(monkeypatch, name, fail)
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("server", "status", "word"),
    [("database", 503, "unready"), ("redis", 200, "degraded"), ("broker", 200, "degraded")],
)
def test_only_without_its_database_a_replica_is_taken_out_of_service(
    server: str, status: int, word: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_server(monkeypatch, server, fail)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (status, word)
    assert answer.json()["servers"][server] == "ConnectionError"


@pytest.mark.django_db(transaction=True)
def test_a_server_that_hangs_is_asked_once_and_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs until all answers are there, so none of them can have waited for it."""
    asked, ended = [], []
    continues = threading.Event()

    def hang() -> None:
        asked.append(1)
        assert continues.wait(300)
        ended.append(1)

    monkeypatch.setattr(health, "MAX_SECONDS", 0.2)
    monkeypatch.setattr(health, "MAX_AGE", 0.0)
    break_server(monkeypatch, "database", hang)
    for _ in range(3):
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "unready")
    assert (asked, ended) == ([1], [])
    continues.set()
    wait_for(lambda: "database" not in health._under_way)  # its thread is at its end
    assert (asked, ended) == ([1], [1])


@pytest.mark.django_db(transaction=True)
def test_an_answer_is_repeated_for_a_second(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    break_server(monkeypatch, "redis", lambda: asked.append(1))
    assert client.get("/readyz").json() == client.get("/readyz").json()
    assert len(asked) == 1
