"""Read requests from a connection: the lane's calls with llhttp, all others as gunicorn does.

gunicorn parses a request in Python, which takes longer than a small call's own work. A call that
arrives with its whole head is parsed by llhttp, Node's parser (the package httptools). llhttp gets
the bytes of this one head and nothing behind it: what follows the call stays in gunicorn's buffer
for the next read. Everything else is gunicorn's from its first byte: pages, large, split or chunked
requests, and whatever is not in the usual form or not valid. So nothing is refused here, and tests
compare what both read from the same streams.
"""

from __future__ import annotations

import re
from functools import lru_cache
from io import BytesIO
from typing import Any

from gunicorn import http
from gunicorn.http.errors import InvalidHeader
from gunicorn.http.message import HeaderPolicy
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from serving.deadlines import TimedUnreader

MAX_SIZE = 4096
"""Bytes, with headers; below gunicorn's own limits. A usual call has a few hundred."""

MAX_HEADERS = 100
"""gunicorn's own limit."""

END_OF_HEAD = b"\r\n\r\n"

TARGET = re.compile(r"(/[\w/.-]+)(?:\?([\w=&,.-]*))?", re.ASCII)
"""A path and query that mean what they say: nothing is quoted."""

HEADER = re.compile(r"[A-Z0-9-]+")

UNUSUAL = {"EXPECT", "TRANSFER-ENCODING", "UPGRADE", "HTTP2-SETTINGS"}
"""Headers with which a call is gunicorn's."""

Headers = list[tuple[str, str]]


@lru_cache(maxsize=1)
def _beginnings(prefix: str) -> tuple[bytes, ...]:
    """Return what a request that takes the lane begins with; nothing does without a prefix."""
    return tuple(f"{method} {prefix}".encode() for method in ("POST", "GET") if prefix)


@lru_cache(maxsize=256)
def _upper(name: bytes) -> str:
    """Return a header's name as gunicorn spells it; empty if it is unusual."""
    text = name.decode("latin-1").upper()
    return text if HEADER.fullmatch(text) and text not in UNUSUAL else ""


class Call:
    """A call that takes the lane, with what gunicorn asks of a request.

    llhttp calls its methods `on_…`.

    Attributes:
        start: where its body begins, in what was received.
        end: where its body ends.
    """

    version = (1, 1)
    trailers = ()
    proxy_protocol_info: dict[str, Any] | None = None
    usual = True
    must_close = False
    method = uri = path = query = ""
    scheme = "http"
    body: BytesIO
    start = end = 0

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}

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

    @property
    def headers(self) -> Headers:
        """The headers in gunicorn's form."""
        return list(self.fields.items())

    def should_close(self) -> bool:
        """Whether the connection ends after the answer."""
        return self.must_close or self.fields.get("CONNECTION", "").lower() == "close"


def read(data: bytes, beginnings: tuple[bytes, ...], secure_headers: dict[str, str]) -> Call | None:
    """Return the call that these bytes begin with, or None if gunicorn must read them.

    Args:
        data: what was received: the call's whole head, and anything behind it.
        beginnings: of calls: method and path.
        secure_headers: of gunicorn's settings: names and values of the headers by which this peer
            says that the client used HTTPS.
    """
    start = data.find(END_OF_HEAD, 0, MAX_SIZE) + len(END_OF_HEAD)
    if start < len(END_OF_HEAD) or not data.startswith(beginnings):
        return None
    call = Call()
    parser = HttpRequestParser(call)
    try:
        parser.feed_data(data[:start])
    except (HttpParserError, HttpParserUpgrade):
        return None
    call.method = parser.get_method().decode("latin-1")
    # llhttp accepts two spaces where gunicorn accepts one.
    line = f"{call.method} {call.uri} HTTP/1.1\r\n".encode("latin-1")
    if not (call.usual and data.startswith(line) and "HOST" in call.fields):
        return None
    says_https = {
        call.fields[name] == value for name, value in secure_headers.items() if name in call.fields
    }
    call.start, call.end = start, start + int(call.fields.get("CONTENT-LENGTH", 0))
    if len(says_https) > 1 or len(call.fields) > MAX_HEADERS or call.end > MAX_SIZE:
        return None
    call.scheme = "https" if True in says_https else "http"
    return call


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
        call = read(data, self.beginnings, self.secure_headers)
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
        if request.version >= (1, 1) and all(name != "HOST" for name, _ in request.headers):
            raise InvalidHeader("HOST", req=request)
        self.unreader.allow(self.seconds)
        return request
