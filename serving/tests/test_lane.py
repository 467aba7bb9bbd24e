"""Calls that take the lane instead of gunicorn's own parser: the same requests and answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config

from serving.lane import MAX_SIZE, Call, TimedUnreader
from serving.tests import streams
from serving.tests.streams import BUY, CHUNKED, LINES, LOOK, OLD, PAGE, STARTS, Peer, differs
from serving.worker import allows_lane

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
def test_lane_reads_a_stream_wherever_it_is_cut(stream: bytes) -> None:
    for place in range(len(stream) + 1):
        assert not differs([stream[:place], stream[place:]])
    assert not differs([bytes([byte]) for byte in stream])


@pytest.mark.parametrize("take", [0, 2])
def test_lane_does_not_read_a_left_body_as_a_request(take: int) -> None:
    for stream in TOGETHER.values():
        assert not differs([stream], take)


def test_lane_reads_an_unusual_line_between_calls() -> None:
    unusual = [BUY.replace(b"Host: shop", line) for line in LINES]
    unusual += [BUY.replace(b"Host: shop", b"Host: shop\r\n" + line) for line in LINES]
    unusual += [BUY.replace(b"POST /api/v1/sales/1/orders HTTP/1.1", line) for line in STARTS]
    for each in unusual:
        assert not differs([LOOK + each + LOOK])
        assert not differs([LOOK + each[: len(each) // 2], each[len(each) // 2 :] + LOOK])


def test_random_streams_are_read_the_same() -> None:
    assert streams.search(CASES, seed=7) == []


def test_lane_reads_calls_between_pages_and_in_packets() -> None:
    assert streams.calls_in([BUY + LOOK + PAGE + BUY]) == 3
    assert streams.calls_in([BUY, PAGE + BUY, BUY + PAGE]) == 3
    assert streams.calls_in([BUY[:-4], BUY[-4:]]) == 1
    assert streams.calls_in([BUY[:-1], BUY[-1:] + LOOK]) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"/api/v1/sales/1/orders", b"/sales/1"),
        (b"/orders", b"/%6frders"),
        (b"POST", b"PUT"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"shop", b"shop\r\nExpect: 100-continue"),
        (b"shop", b"shop\r\nHost: other"),
        (b"shop", b"shop\r\nX_Forwarded_For: 1.2.3.4"),
        (b"shop", b"shop\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off"),
        (b"shop", b"shop\r\nTransfer-Encoding: chunked"),
        (b"shop", b"shop\r\nContent-Length: 15"),
        (b"shop\r\n", b"shop\n"),
        (b"shop", b"shop\r\n folded: line"),
        (b"Host: shop\r\n", b""),
        (b" HTTP/1.1", b"  HTTP/1.1"),
        (b"shop", b"s" * MAX_SIZE),
        (b'14\r\n\r\n{"quantity":1}', b"%d\r\n\r\n" % MAX_SIZE + b" " * MAX_SIZE),
        (BUY[40:], b""),
        (BUY[-1:], b""),
        (b"POST", b"\r\nPOST"),
    ],
)
def test_lane_leaves_unusual_requests_to_gunicorn(old: bytes, new: bytes) -> None:
    assert old in BUY
    assert streams.calls_in([BUY.replace(old, new)]) == 0


def test_lane_trusts_https_only_from_the_proxy() -> None:
    config = Config()
    config.set("forwarded_allow_ips", "10.0.0.1")
    data = [BUY.replace(b"Host: shop", b"Host: shop\r\nX-Forwarded-Proto: https")]
    assert streams.lanes(data, -1, config) == streams.gunicorns(data, -1, config)
    assert streams.lanes(data, -1, config)[0][0]["wsgi.url_scheme"] == "http"


def test_lane_allows_one_more_read_after_the_deadline() -> None:
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
def test_lane_is_off_if_gunicorn_is_set_to_read_differently(name: str, value: Any) -> None:
    config = Config()
    assert allows_lane(config)
    config.set(name, value)
    assert not allows_lane(config)


def answered(application: Any, *packets: bytes) -> Peer:
    """Return the client of a connection, with everything that a worker has sent on it."""
    peer = Peer()
    made = streams.worker(application)
    for request in streams.parser(*packets):
        try:
            made.handle_request(streams.SERVER, request, peer, streams.PEER)
        except StopIteration:
            break
    return peer


def app(*parts: bytes, status: str = "200 OK", **headers: str) -> Any:
    def application(environ: dict[str, Any], start_response: Any) -> tuple[bytes, ...]:
        start_response(status, [(name.replace("_", "-"), headers[name]) for name in headers])
        return parts

    return application


def test_lane_sends_an_answer_as_gunicorn_would() -> None:
    length = {"Content_Type": "application/json", "Content_Length": "4"}
    ready = answered(app(b"true", **length), BUY)
    # In two parts, it is sent by gunicorn.
    gunicorns_way = answered(app(b"tr", b"ue", **length), BUY)
    assert ready.sends == 1 < gunicorns_way.sends
    assert ready.sent.partition(b"Date")[0] == gunicorns_way.sent.partition(b"Date")[0]
    assert ready.sent.splitlines()[3:] == gunicorns_way.sent.splitlines()[3:]


def test_lane_sends_an_answer_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = app(b"true", Content_Length="4")
    sent = answered(whole, BUY).sent
    monkeypatch.setattr(Peer, "send", lambda peer, data: peer.sendall(data[:7]) or 7)
    in_parts = answered(whole, BUY)
    assert in_parts.sends == 2
    assert in_parts.sent.partition(b"Date")[0] == sent.partition(b"Date")[0]
    assert len(in_parts.sent) == len(sent)


def test_lane_leaves_an_answer_without_length_to_gunicorn() -> None:
    nothing = answered(app(b"", status="204 No Content", Content_Length="0"), BUY)
    assert b"Content-Length" not in nothing.sent  # as RFC 9110 demands
    stream = answered(app(b"so", b"ld"), BUY)
    assert stream.sent.endswith(b"\r\n\r\n2\r\nso\r\n2\r\nld\r\n0\r\n\r\n")


def test_lane_does_not_send_a_header_with_a_line_break() -> None:
    with pytest.raises(Exception, match="X-A"):
        answered(app(b"true", Content_Length="4", X_A="a\r\nSet-Cookie: b"), BUY)


def test_lane_ends_after_a_call_that_closes_its_connection() -> None:
    close = BUY.replace(b"Host: shop", b"Host: shop\r\nConnection: close")
    sent = answered(app(b"true", Content_Length="4"), close, BUY).sent
    assert sent.count(b"HTTP/1.1 200 OK") == 1
    assert b"Connection: close\r\n" in sent


def test_last_call_of_a_worker_ends_the_connection() -> None:
    made = streams.worker(app(b"true", Content_Length="4"))
    made.max_requests = 2
    peer = Peer()
    first, second, *_ = streams.parser(BUY, BUY, BUY)
    made.handle_request(streams.SERVER, first, peer, streams.PEER)
    assert made.alive
    with pytest.raises(StopIteration):
        made.handle_request(streams.SERVER, second, peer, streams.PEER)
    assert not made.alive
    assert peer.sent.count(b"Connection: close\r\n") == 1


def test_parser_of_a_worker_has_its_time_limit_and_lane() -> None:
    made = streams.worker()
    made.read_timeout, made.lane = 3.0, "/calls/"
    parser = made._get_parser(streams.CONFIG, Peer(), streams.PEER)
    assert parser.seconds == 3.0
    assert parser.beginnings == (b"POST /calls/", b"GET /calls/")


def test_lane_ends_the_connection_of_a_failed_stream() -> None:
    def parts() -> Iterator[bytes]:
        yield b"sold"
        raise ValueError

    made = streams.worker(lambda environ, start: (start("200 OK", []), parts())[1])
    made.log = type("Log", (), {"exception": lambda *_: None})()
    peer = Peer()
    [request] = streams.parser(BUY)
    assert isinstance(request, Call)
    with pytest.raises(StopIteration):
        made.handle_request(streams.SERVER, request, peer, streams.PEER)
    assert peer.sent.endswith(b"sold\r\n")  # no end of the chunks, no error page
