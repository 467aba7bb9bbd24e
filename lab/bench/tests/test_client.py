"""The load generator of the benchmark: it counts every answer once and sends nothing twice."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from lab.bench import client
from loadtest.client import raise_file_limit
from loadtest.framing import request_bytes
from loadtest.tests.trivial_server import answering, response

GET = request_bytes("GET", "/", "127.0.0.1")


def numbered(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield request_bytes("POST", "/", "127.0.0.1", body=f"n{number}".encode())


class Seen:
    """What a server has received, by body."""

    def __init__(self) -> None:
        self.bodies: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def add(self, request: bytes) -> None:
        with self._lock:
            self.bodies[request.split(b"\r\n\r\n", 1)[1]] += 1


def test_every_request_of_the_iterator_is_sent_once_and_answered_once() -> None:
    seen = Seen()

    def reply(_: int, request: bytes) -> bytes:
        seen.add(request)
        return response("201 Created")

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, numbered(500), connections=20)
    assert result.statuses == {201: 500}
    assert result.errors == 0
    assert len(seen.bodies) == 500
    assert set(seen.bodies.values()) == {1}


def test_answers_are_counted_by_status() -> None:
    def reply(number: int, _: bytes) -> bytes:
        return response("409 Conflict") if number % 4 == 0 else response("201 Created")

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, itertools.repeat(GET), connections=1, count=100)
    assert result.statuses == {201: 75, 409: 25}
    summary = result.summary()
    assert summary["requests"] == 100
    assert summary["statuses"] == {"201": 75, "409": 25}
    assert 0 < summary["p50_ms"] <= summary["p99_ms"] <= summary["max_ms"]
    assert summary["rps"] > 0


def test_two_thousand_connections_are_all_used() -> None:
    raise_file_limit()
    used: list[int] = []

    def reply(number: int, _: bytes) -> bytes:
        used.append(number)
        return response()

    threading.stack_size(256 * 1024)
    try:
        with answering(reply) as port:
            result = client.run(
                "127.0.0.1", port, itertools.repeat(GET), connections=2000, count=4000
            )
    finally:
        threading.stack_size(0)
    assert result.statuses == {200: 4000}
    assert used.count(1) == 2000


def test_time_ends_a_run_and_what_is_under_way_is_waited_for() -> None:
    with answering(lambda *_: response()) as port:
        started = time.monotonic()
        result = client.run("127.0.0.1", port, itertools.repeat(GET), connections=4, seconds=0.3)
        assert time.monotonic() - started >= 0.3
    assert result.errors == 0
    assert len(result.latencies_ns) == result.statuses[200] > 0
    assert result.seconds >= 0.3


def test_a_connection_that_the_server_closes_is_opened_again() -> None:
    closing = response(head="Connection: close\r\n")
    with answering(lambda *_: closing) as port:
        result = client.run("127.0.0.1", port, numbered(50), connections=5)
    assert result.statuses == {200: 50}
    assert result.errors == 0


def test_a_request_that_is_never_answered_is_an_error_and_not_sent_again() -> None:
    seen = Seen()

    def reply(number: int, request: bytes) -> bytes | None:
        seen.add(request)
        return None if number == 3 else response()

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, numbered(30), connections=1)
    assert result.statuses == {200: 20}
    assert result.errors == 10
    assert set(seen.bodies.values()) == {1}


def test_an_answer_that_is_none_or_takes_too_long_is_an_error() -> None:
    with answering(lambda *_: b"SSH-2.0-x\r\n") as port:
        result = client.run("127.0.0.1", port, numbered(3), connections=1)
    assert (result.statuses, result.errors) == ({}, 3)
    gate = threading.Event()
    with answering(lambda *_: response(), delay=gate) as port:
        result = client.run("127.0.0.1", port, numbered(2), connections=2, timeout=0.2)
        gate.set()
    assert (result.statuses, result.errors) == ({}, 2)


def test_answers_that_come_in_pieces_and_long_ones_are_put_together() -> None:
    long = b"x" * 300_000
    with answering(lambda *_: response(body=long)) as port:
        result = client.run("127.0.0.1", port, numbered(20), connections=2)
    assert result.statuses == {200: 20}


def test_a_request_larger_than_the_socket_takes_at_once_is_sent_whole() -> None:
    seen = Seen()

    def reply(_: int, request: bytes) -> bytes:
        seen.add(request)
        return response()

    body = b"y" * 20_000_000
    with answering(reply) as port:
        requests = iter([request_bytes("POST", "/", "127.0.0.1", body=body)])
        result = client.run("127.0.0.1", port, requests, connections=1, timeout=60)
    assert result.statuses == {200: 1}
    assert seen.bodies == {body: 1}


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        client.run("127.0.0.1", port, numbered(1), connections=1)
