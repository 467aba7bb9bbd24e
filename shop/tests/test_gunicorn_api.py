"""Calls of the API that do not go through gunicorn's own parser: the same requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import RequestParser, wsgi
from hypothesis import example, given
from hypothesis import strategies as st

from shop.gunicorn_api import LARGEST, ApiCall, ApiWorker, Parser, read

PEER = ("127.0.0.1", 40000)
SERVER = ("127.0.0.1", 8000)
CONFIG = Config()  # trusts a proxy on this machine

BUY = (
    b"POST /api/v1/sales/1/orders HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer 1.2:a\r\n"
    b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
    b'{"quantity":1}'
)


class Peer:
    """A connection from which everything has been sent already."""

    def __init__(self, *packets: bytes) -> None:
        self.packets = list(packets)
        self.sent = b""

    def recv(self, size: int) -> bytes:
        return self.packets.pop(0) if self.packets else b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    send = sendall


def worker(application: Any = None) -> ApiWorker:
    """A worker that has no process of its own."""
    made = ApiWorker.__new__(ApiWorker)
    made.cfg, made.wsgi, made.nr, made.max_requests, made.alive = (
        CONFIG,
        application,
        0,
        10**9,
        True,
    )
    made._environ = {**wsgi.base_environ(CONFIG), "wsgi.multithread": True, "SCRIPT_NAME": ""}
    return made


def gunicorns(data: bytes, config: Config = CONFIG) -> dict[str, Any] | None:
    """What gunicorn makes of a request; None if it refuses it."""
    peer = Peer(data)
    try:
        request = next(RequestParser(config, peer, PEER))
        _, environ = wsgi.create(request, peer, PEER, SERVER, config)
        return {
            **_texts(environ),
            "body": request.body.read(),
            "scheme": request.scheme,
            "closes": request.should_close(),
        }
    except Exception:  # noqa: BLE001  # whatever it refuses with
        return None


def ours(data: bytes, config: Config = CONFIG) -> dict[str, Any] | None:
    """What we make of a request; None if we leave it to gunicorn."""
    peer = Peer(data)
    call = read(data, Parser(config, peer, PEER).secure_headers)
    if call is None or not call.complete:
        return None
    environ = worker()._environ_of(call, SERVER, peer, PEER)
    return {
        **_texts(environ),
        "body": call.body.read(),
        "scheme": call.scheme,
        "closes": call.should_close(),
    }


def _texts(environ: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in environ.items() if isinstance(value, str)}


def test_a_purchase_is_read_here():
    found = ours(BUY)
    assert found is not None
    assert found == gunicorns(BUY)
    assert found["body"] == b'{"quantity":1}'
    assert found["HTTP_AUTHORIZATION"] == "Bearer 1.2:a"


@pytest.mark.parametrize(
    "header", [b"X-Forwarded-Proto: https", b"x-forwarded-proto: http", b"Connection: close"]
)
def test_a_proxys_headers_mean_the_same(header):
    data = BUY.replace(b"Host: shop", b"Host: shop\r\n" + header)
    found = ours(data)
    assert found is not None
    assert found == gunicorns(data)


def test_a_stranger_cannot_say_https():
    config = Config()
    config.set("forwarded_allow_ips", "10.0.0.1")
    data = BUY.replace(b"Host: shop", b"Host: shop\r\nX-Forwarded-Proto: https")
    found = ours(data, config)
    assert found is not None
    assert found == gunicorns(data, config)
    assert found["scheme"] == "http"


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
        BUY + BUY,
        BUY + b"x",
        BUY.replace(b"shop", b"s" * LARGEST),
    ],
)
def test_what_is_unusual_is_left_to_gunicorn(data):
    assert ours(data) is None


USUAL = [b"Host", b"X-A", b"x-a", b"Content-Length", b"Connection", b"Cookie", b"X-Forwarded-Proto"]
UNUSUAL = [b"X_A", b"X A", b"Te", b"Upgrade", b"Expect", b"Transfer-Encoding", b"X-Forwarded-Ssl"]
names = st.sampled_from(USUAL) | st.sampled_from(UNUSUAL)
colons = st.sampled_from([b": ", b":", b" :", b":\t"])
known = [b"", b"1", b"2", b"02", b"+2", b"chunked", b"close", b"on", b"https", b"http"]
values = st.sampled_from(known) | st.binary(max_size=4)
lines = st.tuples(names, colons, values).map(b"".join)
paths = st.sampled_from([b"v1/sales/1", b"x?a=b,c", b"x#a", b"../x", b"/x"]) | st.binary(max_size=5)
targets = paths.map(lambda path: b"/api/" + path)
requests = st.builds(
    lambda method, target, version, lines, body: b"\r\n".join(
        [b" ".join([method, target, version]), *lines, b"", body]
    ),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"get"]),
    targets,
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 "]),
    st.lists(lines, max_size=4),
    st.sampled_from([b"", b"ab", b"a", b"abc"]),
)


@given(requests)
@example(BUY)
def test_whatever_is_read_here_gunicorn_reads_the_same(data):
    found = ours(data)
    if found is not None:
        assert found == gunicorns(data)


def test_a_call_in_two_packets_is_read_here_and_one_that_ends_early_is_gunicorns():
    parser = Parser(CONFIG, Peer(BUY[:40], BUY[40:]), PEER)
    assert isinstance(next(parser), ApiCall)
    with pytest.raises(StopIteration):
        next(parser)
    assert not isinstance(next(Parser(CONFIG, Peer(BUY[:-1]), PEER)), ApiCall)


def test_on_one_connection_calls_and_pages_take_turns():
    page = b"POST /cart HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\n\r\na=b"
    parser = Parser(CONFIG, Peer(BUY, page + BUY, BUY + page), PEER)
    assert [type(each).__name__ for each in parser] == ["ApiCall", "Request", "ApiCall"] + [
        "Request"
    ] * 2


def answers(application: Any, *packets: bytes) -> bytes:
    """Everything that a worker sends on a connection."""
    peer = Peer(*packets)
    made = worker(application)
    parser = Parser(CONFIG, peer, PEER)
    for request in parser:
        try:
            made.handle_request(SERVER, request, peer, PEER)
        except StopIteration:
            break
    return peer.sent


def app(*parts: bytes, headers: list[tuple[str, str]]) -> Any:
    def application(environ: dict[str, Any], start_response: Any) -> tuple[bytes, ...]:
        start_response("200 OK", headers)
        return parts

    return application


def test_an_answer_is_the_one_that_gunicorn_would_send():
    length = [("Content-Type", "application/json"), ("Content-Length", "4")]
    ready = answers(app(b"true", headers=length), BUY)
    # In two parts, it is sent by gunicorn.
    gunicorns_way = answers(app(b"tr", b"ue", headers=length), BUY)
    assert ready.partition(b"Date")[0] == gunicorns_way.partition(b"Date")[0]
    assert ready.splitlines()[3:] == gunicorns_way.splitlines()[3:]


def test_a_stream_is_sent_in_chunks():
    assert answers(app(b"so", b"ld", headers=[]), BUY).endswith(
        b"\r\n\r\n2\r\nso\r\n2\r\nld\r\n0\r\n\r\n"
    )


def test_a_header_with_a_line_break_is_not_sent():
    length = [("Content-Length", "4"), ("X-A", "a\r\nSet-Cookie: b")]
    with pytest.raises(Exception, match="X-A"):
        answers(app(b"true", headers=length), BUY)


def test_a_call_that_ends_its_connection_is_the_last():
    close = BUY.replace(b"Host: shop", b"Host: shop\r\nConnection: close")
    sent = answers(app(b"true", headers=[("Content-Length", "4")]), close, BUY)
    assert sent.count(b"HTTP/1.1 200 OK") == 1
    assert b"Connection: close\r\n" in sent


def test_a_stream_that_fails_ends_the_connection():
    def parts() -> Iterator[bytes]:
        yield b"sold"
        raise ValueError

    made = worker(lambda environ, start: (start("200 OK", []), parts())[1])
    made.log = type("Log", (), {"exception": lambda *_: None})()
    peer = Peer(BUY)
    [request] = Parser(CONFIG, peer, PEER)
    with pytest.raises(StopIteration):
        made.handle_request(SERVER, request, peer, PEER)
    assert peer.sent.endswith(b"sold\r\n")  # no end of the chunks, no error page
