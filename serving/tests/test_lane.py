"""Calls that take the lane instead of gunicorn's own parser: the same requests and answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config

from serving.calls import MAX_SIZE, Call
from serving.deadlines import TimedUnreader
from serving.lane import allows_lane
from serving.tests import streams
from serving.tests.streams import (
    BUY,
    CHUNKED,
    CONFIG,
    LINES,
    LOOK,
    OLD,
    PAGE,
    PEER,
    SERVER,
    STARTS,
    Peer,
    calls_in,
    differs,
    gunicorns,
    lanes,
    parser,
    worker,
)


def ours(data: bytes, config: Config = CONFIG) -> dict[str, Any]:
    """What we make of a call."""
    assert calls_in([data]) == 1
    [found], _ = lanes([data], -1, config)
    return found


def theirs(data: bytes, config: Config = CONFIG) -> dict[str, Any]:
    """What gunicorn makes of a request."""
    [found], _ = gunicorns([data], -1, config)
    return found


def test_a_purchase_is_read_here():
    found = ours(BUY)
    assert found == theirs(BUY)
    assert found["body"] == b'{"quantity":1}'
    assert found["HTTP_AUTHORIZATION"] == "Bearer 1.2:a"


@pytest.mark.parametrize(
    "header", [b"X-Forwarded-Proto: https", b"x-forwarded-proto: http", b"Connection: close"]
)
def test_a_proxys_headers_mean_the_same(header):
    data = BUY.replace(b"Host: shop", b"Host: shop\r\n" + header)
    assert ours(data) == theirs(data)


def test_a_stranger_cannot_say_https():
    config = Config()
    config.set("forwarded_allow_ips", "10.0.0.1")
    data = BUY.replace(b"Host: shop", b"Host: shop\r\nX-Forwarded-Proto: https")
    assert ours(data, config) == theirs(data, config)
    assert ours(data, config)["wsgi.url_scheme"] == "http"


@pytest.mark.parametrize(
    "data",
    [
        BUY.replace(b"/api/v1/sales/1/orders", b"/sales/1"),
        BUY.replace(b"/orders", b"/%6frders"),
        BUY.replace(b"POST", b"PUT"),
        BUY.replace(b"HTTP/1.1", b"HTTP/1.0"),
        BUY.replace(b"Host: shop", b"Host: shop\r\nExpect: 100-continue"),
        BUY.replace(b"Host: shop", b"Host: shop\r\nHost: other"),
        BUY.replace(b"Host: shop", b"Host: shop\r\nX_Forwarded_For: 1.2.3.4"),
        BUY.replace(
            b"Host: shop", b"Host: shop\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off"
        ),
        BUY.replace(b"Content-Length: 14", b"Content-Length: 14\r\nTransfer-Encoding: chunked"),
        BUY.replace(b"Content-Length: 14", b"Content-Length: 14\r\nContent-Length: 15"),
        BUY.replace(b"Host: shop\r\n", b"Host: shop\n"),
        BUY.replace(b"Host: shop", b"Host: shop\r\n folded: line"),
        BUY.replace(b"Host: shop\r\n", b""),
        BUY.replace(b" HTTP/1.1", b"  HTTP/1.1"),
        BUY.replace(b"shop", b"s" * MAX_SIZE),
        BUY.replace(b"14", b"%d" % MAX_SIZE) + b" " * MAX_SIZE,
        BUY[:40],
        b"\r\n" + BUY,
    ],
)
def test_what_is_unusual_is_left_to_gunicorn(data):
    assert calls_in([data]) == 0


def test_a_body_in_another_packet_is_read_here_and_one_that_ends_early_is_gunicorns():
    requests = parser(BUY[:-4], BUY[-4:])
    assert isinstance(next(requests), Call)
    with pytest.raises(StopIteration):
        next(requests)
    assert not isinstance(next(parser(BUY[:-1])), Call)


def test_on_one_connection_calls_and_pages_take_turns():
    page = b"POST /cart HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\n\r\na=b"
    requests = parser(BUY, page + BUY, BUY + page)
    names = [type(each).__name__ for each in requests]
    assert names == ["Call", "Request", "Call", "Call", "Request"]


def test_after_the_deadline_one_more_read_is_allowed():
    ours, clients = socket.socketpair()
    with ours, clients:
        unreader = TimedUnreader(ours, idle=30)
        unreader.allow(-1)
        clients.sendall(b"arrived while the process was paused")
        assert unreader.chunk() == b"arrived while the process was paused"
        clients.sendall(b"more")
        with pytest.raises(TimeoutError):
            unreader.chunk()
        assert ours.gettimeout() == 30


@pytest.mark.parametrize(
    ("name", "value"), [("limit_request_fields", 50), ("accesslog", "-"), ("proxy_protocol", "v1")]
)
def test_where_gunicorn_is_set_to_read_differently_it_reads_the_calls(name, value):
    config = Config()
    assert allows_lane(config)
    config.set(name, value)
    assert not allows_lane(config)


def answered(application: Any, *packets: bytes) -> Peer:
    """Return the client of a connection, with everything that a worker has sent on it."""
    peer = Peer()
    made = worker(application)
    for request in parser(*packets):
        try:
            made.handle_request(SERVER, request, peer, PEER)
        except StopIteration:
            break
    return peer


def app(*parts: bytes, headers: list[tuple[str, str]], status: str = "200 OK") -> Any:
    def application(environ: dict[str, Any], start_response: Any) -> tuple[bytes, ...]:
        start_response(status, headers)
        return parts

    return application


def test_an_answer_of_one_part_is_sent_at_once_and_as_gunicorn_would_send_it():
    length = [("Content-Type", "application/json"), ("Content-Length", "4")]
    ready = answered(app(b"true", headers=length), BUY)
    # In two parts, it is sent by gunicorn.
    gunicorns_way = answered(app(b"tr", b"ue", headers=length), BUY)
    assert ready.sends == 1 < gunicorns_way.sends
    assert ready.sent.partition(b"Date")[0] == gunicorns_way.sent.partition(b"Date")[0]
    assert ready.sent.splitlines()[3:] == gunicorns_way.sent.splitlines()[3:]


def test_an_answer_is_sent_to_its_end_however_little_the_network_takes_first(monkeypatch):
    whole = app(b"true", headers=[("Content-Length", "4")])
    sent = answered(whole, BUY).sent
    monkeypatch.setattr(Peer, "send", lambda peer, data: peer.send_some(data, 7))
    in_parts = answered(whole, BUY)
    assert in_parts.sends == 2
    assert in_parts.sent.partition(b"Date")[0] == sent.partition(b"Date")[0]
    assert len(in_parts.sent) == len(sent)


def test_an_answer_without_a_body_is_gunicorns():
    nothing = app(b"", headers=[("Content-Length", "0")], status="204 No Content")
    assert b"Content-Length" not in answered(nothing, BUY).sent  # as RFC 9110 demands


def test_a_stream_is_sent_in_chunks():
    sent = answered(app(b"so", b"ld", headers=[]), BUY).sent
    assert sent.endswith(b"\r\n\r\n2\r\nso\r\n2\r\nld\r\n0\r\n\r\n")


def test_a_header_with_a_line_break_is_not_sent():
    length = [("Content-Length", "4"), ("X-A", "a\r\nSet-Cookie: b")]
    with pytest.raises(Exception, match="X-A"):
        answered(app(b"true", headers=length), BUY)


def test_a_call_that_ends_its_connection_is_the_last():
    close = BUY.replace(b"Host: shop", b"Host: shop\r\nConnection: close")
    sent = answered(app(b"true", headers=[("Content-Length", "4")]), close, BUY).sent
    assert sent.count(b"HTTP/1.1 200 OK") == 1
    assert b"Connection: close\r\n" in sent


def test_a_stream_that_fails_ends_the_connection():
    def parts() -> Iterator[bytes]:
        yield b"sold"
        raise ValueError

    made = worker(lambda environ, start: (start("200 OK", []), parts())[1])
    made.log = type("Log", (), {"exception": lambda *_: None})()
    peer = Peer()
    [request] = parser(BUY)
    with pytest.raises(StopIteration):
        made.handle_request(SERVER, request, peer, PEER)
    assert peer.sent.endswith(b"sold\r\n")  # no end of the chunks, no error page


# --- streams of requests, cut anywhere ----------------------------------------------------------


CASES = 4_000
"""The command in `serving/tests/streams.py` tries more, and CI's nightly run a million."""

HALF = b"POST /api/v1/orders/7/refund HTTP/1.1\r\n"

TOGETHER = {
    "a call and the beginning of another": LOOK + HALF,
    "calls": BUY + LOOK + BUY,
    "calls and pages": LOOK + PAGE + BUY + PAGE,
    "line breaks between": BUY + b"\r\n" + LOOK + b"\r\n\r\n" + BUY,
    "a line break and a half": BUY + b"\r\n" + HALF,
    "a body that ends early": LOOK + BUY[:-1],
    "a body that is longer": BUY + b"}" + LOOK,
    "chunks, then calls": CHUNKED + BUY + LOOK,
    "an older version": OLD + LOOK + BUY,
    "the last of its connection": BUY.replace(b"shop", b"shop\r\nConnection: close") + LOOK,
    "a call in a value": LOOK + b"GET /api/x HTTP/1.1\r\nHost: a\r\nX-A: " + HALF + b"\r\n" + BUY,
}


@pytest.mark.parametrize("stream", TOGETHER.values(), ids=TOGETHER)
def test_a_stream_is_read_the_same_wherever_it_is_cut(stream: bytes) -> None:
    for place in range(len(stream) + 1):
        assert not differs([stream[:place], stream[place:]])
    assert not differs([bytes([byte]) for byte in stream])


@pytest.mark.parametrize("take", [0, 2])
def test_what_an_application_leaves_of_a_body_is_not_read_as_a_request(take: int) -> None:
    for stream in TOGETHER.values():
        assert not differs([stream], take)


def test_an_unusual_line_is_read_the_same_between_calls() -> None:
    unusual = [BUY.replace(b"Host: shop", line) for line in LINES]
    unusual += [BUY.replace(b"Host: shop", b"Host: shop\r\n" + line) for line in LINES]
    unusual += [BUY.replace(b"POST /api/v1/sales/1/orders HTTP/1.1", line) for line in STARTS]
    for each in unusual:
        assert not differs([LOOK + each + LOOK])
        assert not differs([LOOK + each[: len(each) // 2], each[len(each) // 2 :] + LOOK])


def test_random_streams_are_read_the_same() -> None:
    assert streams.search(CASES, seed=7) == []
