"""A buyer's connection: finding an answer, concluding from trouble, and sending nothing twice."""

from __future__ import annotations

import socket
import threading

import pytest

from loadtest import client
from loadtest.client import Connection
from loadtest.framing import BadResponse, parse, request_bytes
from loadtest.shop import Request
from loadtest.shops.flash_sale.answers import Answer, nothing, understand
from loadtest.tests.trivial_server import Reply, answering, response

FINE = b"HTTP/1.1 200 OK\r\n"
CHUNKS = FINE + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = b"Content-Length: 5\r\n\r\nhello"
ANSWERS = {
    "length": (b"HTTP/1.1 201 Created\r\n" + HELLO, 201, b"hello", False),
    "odd case": (b"HTTP/1.1 409 Conflict\r\n" + HELLO.swapcase(), 409, b"HELLO", False),
    "empty": (FINE + b"Content-Length: 0\r\n\r\n", 200, b"", False),
    "no body": (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, b"", False),
    "chunks": (CHUNKS + b"2\r\nhi\r\n2;x=1\r\n, \r\n0\r\n\r\n", 200, b"hi, ", False),
    "end in a chunk": (CHUNKS + b"7\r\n0\r\n\r\n12\r\n0\r\n\r\n", 200, b"0\r\n\r\n12", False),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\n" + FINE + HELLO, 200, b"hello", False),
    "last": (FINE + b"Connection: close\r\n" + HELLO, 200, b"hello", True),
}


@pytest.mark.parametrize(("data", "status", "body", "closes"), ANSWERS.values(), ids=ANSWERS)
def test_answer_is_found_only_when_it_is_whole(
    data: bytes, status: int, body: bytes, closes: bool
) -> None:
    for length in range(1, len(data)):
        assert parse(data[:length]) is None
    found = parse(data)
    assert found is not None
    assert (found.status, found.body, found.closes) == (status, body, closes)


def test_answer_without_a_length_ends_with_the_connection() -> None:
    data = FINE + b"\r\nhello"
    assert parse(data) is None
    found = parse(data, closed=True)
    assert found is not None
    assert (found.body, found.closes) == (b"hello", True)
    assert parse(FINE + HELLO[:-1], closed=True) is None, "cut off"


def test_headers_are_found_in_any_case() -> None:
    found = parse(b"HTTP/1.1 503 Busy\r\nRETRY-AFTER:  2 \r\nContent-Length: 0\r\n\r\n")
    assert found is not None
    assert found.headers() == {"retry-after": "2", "content-length": "0"}


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        FINE + b"Content-Length: 1\r\n\r\ntwo",
        CHUNKS + b"five\r\n",
        b"HTTP/1." + b"x" * 70_000,
    ],
)
def test_reply_that_is_not_one_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BadResponse):
        parse(data)


def test_request_states_the_length_of_its_body() -> None:
    assert request_bytes("POST", "/x", "h:1", headers={"A": "b"}, body=b"{}") == (
        b"POST /x HTTP/1.1\r\nHost: h:1\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert request_bytes("GET", "/x", "h:1") == b"GET /x HTTP/1.1\r\nHost: h:1\r\n\r\n"
    assert b"Content-Length: 0" in request_bytes("POST", "/x", "h:1")


GET, POST = Request("GET", "/"), Request("POST", "/", body=b"{}")


def ask(connection: Connection, request: Request = GET) -> Answer:
    """What our shop's adapter makes of an answer, or of none."""
    reply = connection.request(request, {})
    return nothing(reply) if isinstance(reply, str) else understand(reply)


def answered(reply: Reply, request: Request = GET) -> Answer:
    """What a connection makes of a server's reply."""
    with answering(reply) as port:
        connection = Connection("127.0.0.1", port)
        answer = ask(connection, request)
        connection.close()
    return answer


def test_answer_has_status_code_body_and_retry_after() -> None:
    busy = response("503 Busy", b'{"code": "busy"}', "Retry-After: 2\r\n")
    answer = answered(lambda *_: busy)
    assert (answer.status, answer.code, answer.retry_after) == (503, "busy", 2.0)
    assert answer.order is None


def test_answer_has_the_order_id_as_text() -> None:
    assert answered(lambda *_: response(body=b'{"id": 91}')).order == "91"


def test_requests_share_one_connection() -> None:
    numbers = []

    def reply(number: int, _: bytes) -> bytes:
        numbers.append(number)
        return response()

    with answering(reply) as port:
        connection = Connection("127.0.0.1", port)
        for _ in range(3):
            assert ask(connection).status == 200
        connection.close()
    assert numbers == [1, 2, 3]


def test_connection_refused_differs_from_a_lost_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert ask(Connection("127.0.0.1", port)).code == "connection_refused"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (None, "empty_reply"),
        (FINE + b"Connection: close\r\n" + HELLO[:-1], "empty_reply"),
        (b"nonsense\r\n\r\n", "bad_reply"),
    ],
)
def test_reply_that_is_invalid_is_unknown_and_not_repeated(reply: bytes | None, code: str) -> None:
    requests = []

    def answer(_: int, request: bytes) -> bytes | None:
        requests.append(request)
        return reply

    got = answered(answer, POST)
    assert (got.status, got.code) == (0, code)
    assert len(requests) == 1


def test_reply_that_does_not_come_is_given_up_on() -> None:
    gate = threading.Event()
    with answering(lambda *_: response(), delay=gate) as port:
        connection = Connection("127.0.0.1", port, timeout=0.1)
        assert ask(connection).code == "timeout"
        gate.set()
        connection.close()


def test_connection_dropped_while_idle_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_RESTED", 0.0)
    with answering(lambda *_: response()) as port:
        connection = Connection("127.0.0.1", port)
        assert ask(connection).status == 200
        assert ask(connection).status == 200, "one that is alive is kept"
        assert connection._socket is not None
        connection._socket.shutdown(socket.SHUT_WR)  # the server sees the end and closes too
        assert connection._socket.recv(1, socket.MSG_PEEK) == b""
        assert ask(connection, POST).status == 200
        connection.close()


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'"text"', b"{"])
def test_body_that_is_not_an_object_counts_as_empty(body: bytes) -> None:
    answer = answered(lambda *_: response("500 Oops", body))
    assert (answer.status, answer.code, answer.body) == (500, "", {})
