"""Finding an answer in the bytes of a connection, however they arrive."""

from __future__ import annotations

import pytest

from loadtest.framing import BadResponse, parse, request_bytes

ANSWERS = {
    "length": (b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello", 201, b"hello"),
    "odd case": (b"HTTP/1.1 409 Conflict\r\ncontent-LENGTH:5\r\n\r\nhello", 409, b"hello"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "no body": (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, b""),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n2;x=1\r\n, \r\n0\r\n\r\n",
        200,
        b"hi, ",
    ),
    "chunk with an end inside": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n0\r\n\r\n12\r\n0\r\n\r\n",
        200,
        b"0\r\n\r\n12",
    ),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        200,
        b"hi",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_found_only_when_it_is_whole(name: str) -> None:
    data, status, body = ANSWERS[name]
    for length in range(1, len(data)):
        assert parse(data[:length]) is None
    found = parse(data)
    assert found is not None
    assert (found.status, found.body, found.closes) == (status, body, False)


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\nhello"
    assert parse(data) is None
    found = parse(data, closed=True)
    assert found is not None
    assert (found.body, found.closes) == (b"hello", True)


def test_an_answer_that_was_cut_off_is_none() -> None:
    assert parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", closed=True) is None


def test_a_server_that_closes_is_noticed() -> None:
    found = parse(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert found is not None
    assert found.closes


def test_headers_are_found_in_any_case() -> None:
    found = parse(b"HTTP/1.1 503 Busy\r\nRETRY-AFTER:  2 \r\nContent-Length: 0\r\n\r\n")
    assert found is not None
    assert found.header("Retry-After") == "2"
    assert found.header("Location") is None


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ntwo",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\n",
        b"HTTP/1." + b"x" * 70_000,
    ],
)
def test_what_is_not_one_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BadResponse):
        parse(data)


def test_a_request_says_how_long_its_body_is() -> None:
    assert request_bytes("POST", "/x", "h:1", headers={"A": "b"}, body=b"{}") == (
        b"POST /x HTTP/1.1\r\nHost: h:1\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert request_bytes("GET", "/x", "h:1") == b"GET /x HTTP/1.1\r\nHost: h:1\r\n\r\n"
    assert b"Content-Length: 0" in request_bytes("POST", "/x", "h:1")
