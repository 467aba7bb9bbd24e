"""The API's way through gunicorn: less of what any application might need, all of what HTTP does.

gunicorn reads and answers a request for whatever application may follow, in Python, which takes
longer than a purchase's share of its batch. A call of the API is small and arrives in one piece.
Such a call is read by llhttp, Node's parser (the package httptools), and answered with one send.
Everything else is gunicorn's from its first byte: pages, large, split or chunked requests, whatever
is not in the usual form or not valid. So nothing is refused here, and a test compares what either
makes of the same bytes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal

import gevent
from gunicorn import http, util
from gunicorn.http import wsgi
from gunicorn.http.message import HeaderPolicy
from gunicorn.workers.ggevent import GeventWorker
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

LARGEST = 4096
"""Bytes, with headers; below each of gunicorn's own limits. A purchase has a few hundred."""

BEGINNINGS = (b"POST /api/", b"GET /api/")

TARGET = re.compile(r"(/[\w/.-]+)(?:\?([\w=&,.-]*))?", re.ASCII)
"""A path and query that mean what they say: nothing is quoted."""

HEADER = re.compile(r"[A-Z0-9-]+")

UNUSUAL = {"EXPECT", "TRANSFER-ENCODING", "UPGRADE", "HTTP2-SETTINGS"}
"""Headers with which a call is gunicorn's."""

KEYS = {"CONTENT-TYPE": "CONTENT_TYPE", "CONTENT-LENGTH": "CONTENT_LENGTH"}

Headers = list[tuple[str, str]]


@lru_cache(maxsize=256)
def _upper(name: bytes) -> str:
    """Return a header's name as gunicorn spells it; empty if it is unusual."""
    text = name.decode("latin-1").upper()
    return text if HEADER.fullmatch(text) and text not in UNUSUAL else ""


class ApiCall:
    """A call of the API, with what gunicorn asks of a request.

    Its methods ``on_…`` are called by the parser.
    """

    version = (1, 1)
    trailers = ()
    must_close = False

    def __init__(self) -> None:
        self.complete = 0
        self.usual = True
        self.method = self.uri = self.path = self.query = ""
        self.scheme: Literal["http", "https"] = "http"
        self.fields: dict[str, str] = {}
        self.body = BytesIO()
        self.proxy_protocol_info: dict[str, Any] = {}

    def on_url(self, url: bytes) -> None:
        """Take the path and query."""
        self.uri = url.decode("latin-1")
        target = TARGET.fullmatch(self.uri)
        if target is None:
            self.usual = False
        else:
            self.path, self.query = target[1], target[2] or ""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        key = _upper(name)
        if not key or key in self.fields:
            self.usual = False
        self.fields[key] = value.decode("latin-1").strip(" \t")

    def on_body(self, body: bytes) -> None:
        """Take the body, which comes whole."""
        self.body = BytesIO(body)

    def on_message_complete(self) -> None:
        """Count what was complete: there may be another request in the same bytes."""
        self.complete += 1

    @property
    def headers(self) -> Headers:
        """The headers in gunicorn's form."""
        return list(self.fields.items())

    def should_close(self) -> bool:
        """Whether the connection ends after the answer."""
        return self.must_close or self.fields.get("CONNECTION", "").lower() == "close"


def read(data: bytes, secure_headers: dict[str, str]) -> ApiCall | None:
    """Return the call of which these bytes consist, which may be incomplete; None: gunicorn's.

    Args:
        data: what was received.
        secure_headers: of gunicorn's settings: names and values of the headers by which this peer
            says that the client used HTTPS.
    """
    if not data.startswith(BEGINNINGS) or len(data) > LARGEST:
        return None
    call = ApiCall()
    parser = HttpRequestParser(call)
    try:
        parser.feed_data(data)
    except (HttpParserError, HttpParserUpgrade):
        return None
    fields = call.fields
    if call.complete == 0 and call.usual:
        return call
    if call.complete > 1 or not call.usual or parser.get_http_version() != "1.1":
        return None
    if fields.get("CONNECTION", "close").lower() not in {"close", "keep-alive"}:
        return None
    says_https = {fields[name] == value for name, value in secure_headers.items() if name in fields}
    if len(says_https) > 1:
        return None
    call.method = parser.get_method().decode("latin-1")
    call.scheme = "https" if True in says_https else "http"
    return call


class Parser(http.RequestParser):
    """Reads a connection: calls of the API here, other requests as gunicorn does."""

    mesg: Any

    def __init__(self, cfg: Any, source: Any, peer: tuple[str, int]) -> None:
        super().__init__(cfg, source, peer)
        policy = HeaderPolicy()
        policy.cfg, policy.peer_addr = cfg, peer
        self.secure_headers, _ = policy._peer_trusted_for_forwarded()

    def __next__(self) -> Any:
        """Return the next request."""
        if (self.mesg and self.mesg.should_close()) or not self.finish_body():
            raise StopIteration
        data = self.unreader.take_buffered() or self.unreader.chunk()
        call = read(data, self.secure_headers)
        while call and not call.complete and (more := self.unreader.chunk()):
            data += more
            call = read(data, self.secure_headers)
        if call is None or not call.complete:
            self.unreader.unread(data)
            return super().__next__()
        self.mesg = call
        return call


def _get_parser(cfg: Any, source: Any, peer: Any, http2_connection: bool = False) -> Any:
    other = cfg.protocol != "http" or cfg.proxy_protocol != "off" or cfg.is_ssl or cfg.accesslog
    if other or http2_connection or not isinstance(peer, tuple) or os.environ.get("SCRIPT_NAME"):
        return _gunicorns_parser(cfg, source, peer, http2_connection)
    return Parser(cfg, source, peer)


_gunicorns_parser = http.get_parser


class Answer:
    """What an application answers, until it is sent."""

    status = ""
    headers: Headers

    def start(self, status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], None]:
        """Take the status and headers: WSGI's ``start_response``."""
        self.status, self.headers = status, headers
        return _never_written

    def packet(self, body: bytes, *, close: bool) -> bytes | None:
        """Return the answer as it is sent; None if it is not of the usual form."""
        if ("Content-Length", str(len(body))) not in self.headers:
            return None
        lines = [f"{name}: {value}\r\n" for name, value in self.headers]
        head = (
            f"HTTP/1.1 {self.status}\r\n"
            f"Server: {wsgi.SERVER}\r\n"
            f"Date: {_date(int(time.time()))}\r\n"
            f"Connection: {'close' if close else 'keep-alive'}\r\n"
            f"{''.join(lines)}\r\n"
        )
        # A line break in a value would be another header.
        if head.count("\n") != len(lines) + 5 or head.count("\r") != len(lines) + 5:
            return None
        return head.encode("latin-1") + body


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return str(util.http_date(second))


def _never_written(data: bytes) -> None:
    raise NotImplementedError("the API returns its answers")


class ApiWorker(GeventWorker):
    """gunicorn's gevent worker with a shorter way for calls of the API."""

    def init_process(self) -> None:
        """Prepare what all calls share."""
        http.get_parser = _get_parser
        self._environ = {**wsgi.base_environ(self.cfg), "wsgi.multithread": True, "SCRIPT_NAME": ""}
        super().init_process()

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        """Answer a request."""
        if not isinstance(req, ApiCall):
            super().handle_request(listener_name, req, sock, addr)
            return
        self.nr += 1
        if self.nr >= self.max_requests:
            self.alive = False
        req.must_close = not self.alive or not self.cfg.keepalive
        try:
            self._answer(req, self._environ_of(req, listener_name, sock, addr), sock)
        except (gevent.GreenletExit, SystemExit):
            return
        if req.should_close():
            raise StopIteration

    def _environ_of(self, call: ApiCall, server: Any, sock: Any, addr: Any) -> dict[str, Any]:
        environ = {
            **self._environ,
            "wsgi.url_scheme": call.scheme,
            "wsgi.input": call.body,
            "gunicorn.socket": sock,
            "REQUEST_METHOD": call.method,
            "RAW_URI": call.uri,
            "PATH_INFO": call.path,
            "QUERY_STRING": call.query,
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "REMOTE_ADDR": addr[0],
            "REMOTE_PORT": str(addr[1]),
        }
        for name, value in call.fields.items():
            environ[KEYS.get(name) or "HTTP_" + name.replace("-", "_")] = value
        return environ

    def _answer(self, call: ApiCall, environ: dict[str, Any], sock: Any) -> None:
        answer = Answer()
        parts = self.wsgi(environ, answer.start)
        if type(parts) is tuple and len(parts) == 1:
            packet = answer.packet(parts[0], close=call.should_close())
            if packet is not None:
                sock.sendall(packet)
                return
        # A stream, or a page: the paths of the API that Django answers.
        response = wsgi.Response(call, sock, self.cfg)
        try:
            response.start_response(answer.status, answer.headers)
            for part in parts:
                response.write(part)
            response.close()
        except Exception:
            if not response.headers_sent:
                raise
            # An error page would be read as a part of the answer.
            self.log.exception("failed while answering %s %s", call.method, call.uri)
            call.must_close = True
            return
        finally:
            if hasattr(parts, "close"):
                parts.close()
        call.must_close = response.should_close()
