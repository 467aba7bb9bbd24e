"""HTTP/1.1 on the wire, as far as a load generator needs it: build a request, find an answer.

A client library costs several times what the rest of a request costs, and retries where the load
test must know that nothing was sent twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

# One read takes a whole answer of an API; longer ones take several.
READ_SIZE = 65_536
# A server that sends more than this without ending its headers is not one we want to talk to.
_MAX_HEAD = 65_536

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)[ \r]")


class BadResponse(ValueError):
    """The server did not answer in HTTP/1.x."""


class Response(NamedTuple):
    """A complete answer; `closes` says that the connection is of no further use."""

    status: int
    head: bytes
    body: bytes
    closes: bool

    def headers(self) -> dict[str, str]:
        """The headers by their names in lower case.

        Several of one name are joined by newlines, since cookies hold commas.
        """
        found: dict[str, str] = {}
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                name, value = name.strip().lower(), value.strip()
                found[name] = f"{found[name]}\n{value}" if name in found else value
        return found


def request_bytes(
    method: str,
    path: str,
    host: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """Build one HTTP/1.1 request; a body gets its length, headers go out as given."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def parse(data: bytes, *, closed: bool = False) -> Response | None:
    """Find one answer in `data`; None while it is incomplete.

    `closed` says that the server has closed the connection, which ends an answer without a length.
    Raises `BadResponse` for anything that is not one answer in HTTP/1.x.
    """
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        if len(data) > _MAX_HEAD or not data.startswith(b"HTTP/1."[: len(data)]):
            raise BadResponse(data[:80])
        return None
    match = _STATUS_LINE.match(data)
    if match is None:
        raise BadResponse(data[:80])
    status, start, head = int(match[1]), head_end + 4, data[: head_end + 2]
    if status < 200:  # an interim answer; the real one follows
        return parse(data[start:], closed=closed) if len(data) > start else None
    closes = closed or _CLOSE.search(head) is not None
    if status in (204, 304):
        return _framed(data, start, status, head, closes)
    if length := _LENGTH.search(head):
        return _framed(data, start + int(length[1]), status, head, closes, start)
    if _CHUNKED.search(head):
        return _chunked(data, start, status, head, closes)
    return Response(status, head, data[start:], True) if closed else None


def _framed(
    data: bytes, end: int, status: int, head: bytes, closes: bool, start: int | None = None
) -> Response | None:
    if len(data) < end:
        return None
    if len(data) > end:  # more than was asked for: whose answer would that be?
        raise BadResponse(data[end : end + 80])
    return Response(status, head, data[end if start is None else start :], closes)


def _chunked(data: bytes, at: int, status: int, head: bytes, closes: bool) -> Response | None:
    chunks: list[bytes] = []
    while (line_end := data.find(b"\r\n", at)) >= 0:
        try:
            size = int(data[at:line_end].split(b";")[0], 16)
        except ValueError as error:
            raise BadResponse(data[at : at + 80]) from error
        at = line_end + 2
        if size == 0:  # no trailers: servers send them on request only
            ended = _framed(data, at + 2, status, head, closes)
            return ended and ended._replace(body=b"".join(chunks))
        chunks.append(data[at : at + size])
        at += size + 2
    return None
