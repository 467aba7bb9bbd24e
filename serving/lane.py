"""The lane: a shorter way through gunicorn for the small calls of an API.

gunicorn parses a request in Python, for whatever application may follow, and sends the head and the
body of an answer apart. That takes longer than a small call's own work. So a call of the lane is
read by one regular expression, and its answer is sent at once.

**What takes the lane** is a GET or POST below the lane's prefix whose head matches `HEAD`, with a
body whose length is given; in all up to 4 KiB. Such a head has one meaning only. Everything else is
gunicorn's from its first byte: pages, large, split or chunked requests, and whatever is not in the
usual form or not valid. So nothing is refused here, and tests compare what both read from the same
streams. What follows a call stays in gunicorn's buffer for the next read.

**Deadlines.** gunicorn waits `keepalive` seconds for a request, from the last answer to the last
byte, so a client that sends a byte now and then holds a connection for that long. Here a head has
`read_timeout` seconds to arrive, and a body again; the longer `keepalive` limits idle connections
and answers that are not read. Each connection costs a greenlet and a file, so what one client can
hold is bounded by these times and by the worker's `worker_connections`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from typing import Any

from gunicorn import http, util
from gunicorn.http import wsgi
from gunicorn.http.errors import InvalidHeader
from gunicorn.http.message import HeaderPolicy
from gunicorn.http.unreader import SocketUnreader

MAX_SIZE = 4096
"""Bytes, with headers; below gunicorn's own limits. A usual call has a few hundred."""

MAX_HEADERS = 100
"""gunicorn's own limit."""

HEAD = re.compile(
    rb"(GET|POST) ((/[\w/.-]+)(?:\?([\w=&,.-]*))?) HTTP/1\.1\r\n"  # nothing in it is quoted
    rb"((?:[A-Za-z0-9-]+:[\t -~]*\r\n)+)\r\n"  # printable ASCII, no folded lines
)
"""The head of a call."""

UNUSUAL = {"EXPECT", "TRANSFER-ENCODING", "UPGRADE", "HTTP2-SETTINGS"}
"""Headers with which a call is gunicorn's."""

Headers = list[tuple[str, str]]


class Call:
    """A call that takes the lane, with what gunicorn asks of a request.

    Attributes:
        fields: its headers; their names are in capitals.
        end: where it ends, in what was received: its head and its body.
        body: its body, once it is whole.
    """

    version = (1, 1)
    trailers = ()
    proxy_protocol_info: dict[str, Any] | None = None
    must_close = False
    scheme = "http"
    body: BytesIO

    def __init__(self, head: re.Match[bytes], fields: dict[str, str]) -> None:
        method, uri, path, query, _ = head.groups(b"")
        self.method, self.uri = method.decode(), uri.decode()
        self.path, self.query = path.decode(), query.decode()
        self.fields = fields
        self.start = head.end()
        self.end = self.start + int(fields.get("CONTENT-LENGTH", "0"))

    @property
    def headers(self) -> Headers:
        """The headers in gunicorn's form."""
        return list(self.fields.items())

    def should_close(self) -> bool:
        """Whether the connection ends after the answer."""
        return self.must_close or self.fields.get("CONNECTION", "").lower() == "close"


def read_call(
    data: bytes, beginnings: tuple[bytes, ...], secure_headers: dict[str, str]
) -> Call | None:
    """Return the call that these bytes begin with, or None if gunicorn must read them.

    Args:
        data: what was received: the call's whole head, and anything behind it.
        beginnings: of calls: method and path.
        secure_headers: of gunicorn's settings: names and values of the headers by which this peer
            says that the client used HTTPS.
    """
    if not data.startswith(beginnings) or not (head := HEAD.match(data, 0, MAX_SIZE)):
        return None
    fields: dict[str, str] = {}
    for line in head[5].decode().removesuffix("\r\n").split("\r\n"):
        name, _, value = line.partition(":")
        name = name.upper()
        if name in fields or name in UNUSUAL:
            return None
        fields[name] = value.strip(" \t")
    if "HOST" not in fields or len(fields) > MAX_HEADERS:
        return None
    if not fields.get("CONTENT-LENGTH", "0").isdecimal():
        return None
    call = Call(head, fields)
    says_https = {fields[name] == value for name, value in secure_headers.items() if name in fields}
    if len(says_https) > 1 or call.end > MAX_SIZE:
        return None
    call.scheme = "https" if True in says_https else "http"
    return call


class TimedUnreader(SocketUnreader):
    """gunicorn's receive buffer of a connection, with a deadline for reads.

    Args:
        sock: the connection.
        idle: seconds that the connection may be idle between requests; also the socket's time-out,
            which applies while an answer is sent.
    """

    def __init__(self, sock: Any, idle: float) -> None:
        super().__init__(sock)
        self.idle = idle
        self.deadline: float | None = None
        self._late = False
        sock.settimeout(idle)

    def allow(self, seconds: float) -> None:
        """Set the deadline of the following reads."""
        self.deadline, self._late = time.monotonic() + seconds, False

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Receive a piece.

        Raises:
            TimeoutError: the deadline has passed.
        """
        self.sock.settimeout(self.idle if self.deadline is None else self._left(self.deadline))
        try:
            data: bytes = super().chunk(size_hint)
        finally:
            self.sock.settimeout(self.idle)
        return data

    def _left(self, deadline: float) -> float:
        seconds = deadline - time.monotonic()
        if seconds > 0:
            return seconds
        if self._late:
            raise TimeoutError
        # One more read, for what arrived while this process was busy or paused.
        self._late = True
        return 0.001


class Parser(http.RequestParser):
    """A connection's requests, each of which must arrive within a time limit.

    Args:
        cfg: gunicorn's settings.
        source: the connection.
        peer: the client's address.
        seconds: the time limit of a head, and again of a body. For the first head it starts with
            the connection, for later ones with their first byte. Until then the connection is
            idle, for which gunicorn has a limit of its own (`keepalive`).
        prefix: of the paths that take the lane; empty: none does.
    """

    mesg: Any

    def __init__(self, cfg: Any, source: Any, peer: Any, *, seconds: float, prefix: str) -> None:
        super().__init__(cfg, source, peer)
        self.seconds = seconds
        self.beginnings = _beginnings(prefix)
        self.unreader = TimedUnreader(source, cfg.keepalive or seconds)
        self.unreader.allow(seconds)
        policy = HeaderPolicy()
        policy.cfg, policy.peer_addr = cfg, peer
        self.secure_headers, _ = policy._peer_trusted_for_forwarded()

    def __next__(self) -> Any:
        """Return the next request.

        Raises:
            StopIteration: the connection ends, perhaps because a request took too long.
        """
        try:
            return self._read_request()
        except TimeoutError:
            raise StopIteration from None

    def _read_request(self) -> Any:
        if self.mesg is not None:
            if self.mesg.should_close():
                raise StopIteration
            # A call was taken out of the buffer with its body.
            if type(self.mesg) is not Call and not self.finish_body():
                raise StopIteration
            self.unreader.deadline = None
        data = self.unreader.take_buffered() or self.unreader.chunk()
        call = read_call(data, self.beginnings, self.secure_headers)
        if call is not None and len(data) < call.end:
            self.unreader.allow(self.seconds)
            while len(data) < call.end and (more := self.unreader.chunk()):
                data += more
        if call is None or len(data) < call.end:
            return self._read_as_gunicorn(data)
        call.body = BytesIO(data[call.start : call.end])
        if len(data) > call.end:
            self.unreader.unread(data[call.end :])
        self.mesg = call
        return call

    def _read_as_gunicorn(self, data: bytes) -> Any:
        self.unreader.unread(data)
        self.unreader.allow(self.seconds)
        request = super().__next__()
        # RFC 9112 demands it, and gunicorn does not.
        if request.version >= (1, 1) and all(name != "HOST" for name, _ in request.headers):
            raise InvalidHeader("HOST", req=request)
        self.unreader.allow(self.seconds)
        return request


@lru_cache(maxsize=1)
def _beginnings(prefix: str) -> tuple[bytes, ...]:
    """Return what a request that takes the lane begins with; nothing does without a prefix."""
    return tuple(f"{method} {prefix}".encode() for method in ("POST", "GET") if prefix)


class Response:
    """What an application answers, until it is sent."""

    status = ""
    headers: Headers

    def start(self, status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], None]:
        """Take the status and headers: WSGI's `start_response`."""
        self.status, self.headers = status, headers
        return _never_written

    def packet(self, body: bytes, *, close: bool) -> bytes | None:
        """Return the answer as it is sent; None if this is not all of it, or not of the usual form.

        Args:
            body: the application's first part.
            close: whether the connection ends with it.
        """
        if not body or ("Content-Length", str(len(body))) not in self.headers:
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
    raise NotImplementedError("a call's answer is returned, not written")
