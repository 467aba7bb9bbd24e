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


def numbered(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield request_bytes("POST", "/", "127.0.0.1", body=f"n{number}".encode())


def test_every_request_is_sent_once_and_answers_are_counted_by_status() -> None:
    seen: list[bytes] = []

    def reply(_: int, request: bytes) -> bytes:
        seen.append(request)
        return response("409 Conflict" if request.endswith(b"0") else "201 Created")

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, numbered(500), connections=20)
    assert (result.statuses, result.errors) == ({201: 450, 409: 50}, 0)
    assert len(set(seen)) == len(seen) == 500
    assert 0 < result.percentile_ms(0.5) <= result.percentile_ms(0.99)


def test_two_thousand_connections_are_all_used() -> None:
    raise_file_limit()
    used: list[int] = []

    def reply(number: int, _: bytes) -> bytes:
        used.append(number)
        return response()

    threading.stack_size(256 * 1024)
    try:
        with answering(reply) as port:
            result = client.run("127.0.0.1", port, numbered(4000), connections=2000)
    finally:
        threading.stack_size(0)
    assert result.statuses == {200: 4000}
    assert used.count(1) == 2000


@pytest.mark.parametrize("bound", [{"seconds": 0.3}, {"count": 100}])
def test_time_or_a_number_ends_a_run_and_what_is_under_way_is_waited_for(bound) -> None:
    endless = itertools.repeat(request_bytes("GET", "/", "127.0.0.1"))
    with answering(lambda *_: response()) as port:
        started = time.monotonic()
        result = client.run("127.0.0.1", port, endless, connections=4, **bound)
        assert time.monotonic() - started >= result.seconds >= bound.get("seconds", 0)
    assert result.errors == 0
    assert len(result.latencies_ns) == result.statuses[200] > 0
    assert bound.get("count") in {None, result.statuses[200]}


def test_a_connection_that_the_server_closes_is_opened_again() -> None:
    closing = response(head="Connection: close\r\n")
    with answering(lambda *_: closing) as port:
        result = client.run("127.0.0.1", port, numbered(50), connections=5)
    assert (result.statuses, result.errors) == ({200: 50}, 0)


def test_a_request_that_is_never_answered_is_an_error_and_not_sent_again() -> None:
    seen: Counter[bytes] = Counter()

    def reply(number: int, request: bytes) -> bytes | None:
        seen[request] += 1
        return None if number == 3 else response()

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, numbered(30), connections=1)
    assert (result.statuses, result.errors) == ({200: 20}, 10)
    assert set(seen.values()) == {1}


def test_an_answer_that_is_none_or_takes_too_long_is_an_error() -> None:
    with answering(lambda *_: b"SSH-2.0-x\r\n") as port:
        result = client.run("127.0.0.1", port, numbered(3), connections=1)
    assert (result.statuses, result.errors) == ({}, 3)
    gate = threading.Event()
    with answering(lambda *_: response(), delay=gate) as port:
        result = client.run("127.0.0.1", port, numbered(2), connections=2, timeout=0.2)
        gate.set()
    assert (result.statuses, result.errors) == ({}, 2)


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        client.run("127.0.0.1", port, numbered(1), connections=1)
