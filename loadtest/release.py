"""Send many requests at one moment.

A plain client connects and sends when it is started, so that the first request has been served
before the last one leaves. With last-byte synchronisation every connection is open and every
request but its last byte has arrived beforehand: the moment is as short as one loop over the
sockets. Burp's Turbo Intruder does the same; it works with any server that speaks HTTP/1.1.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from loadtest import framing
from loadtest.address import authority
from loadtest.shop import Request, Response

Address = tuple[str, int]

SETTLE = 0.1
"""Seconds for the servers to read what has been sent before the last bytes follow."""


class Release(StrEnum):
    """How requests are sent together."""

    LAST_BYTE = "last-byte"
    PLAIN = "plain"


@dataclass(slots=True)
class Reply:
    """What came of one request: the answer, or why there is none. Times in ns (monotonic)."""

    start: int = 0
    end: int = 0
    response: Response | None = None
    problem: str = "no answer in time"


@dataclass(slots=True, kw_only=True)
class _Exchange(Reply):
    """A request on its way, on a socket of its own, and what has been received of its answer."""

    data: bytes
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)


def together(
    address: Address,
    requests: Sequence[Request],
    *,
    release: Release = Release.LAST_BYTE,
    timeout: float = 30.0,
    ended: Callable[[int, Reply], None] = lambda _number, _reply: None,
) -> Sequence[Reply]:
    """Send all requests at one moment and gather their answers.

    Args:
        address: of the shop.
        requests: each on a connection of its own.
        release: how.
        timeout: seconds for all answers, and as many for getting ready.
        ended: called as soon as a request has come to its end, with its number and its reply.
    """
    replies = [_Exchange(data=_bytes(address, request), socket=_socket()) for request in requests]
    try:
        if release is Release.LAST_BYTE:
            _connect(address, replies, timeout)
            held = [reply for reply in replies if _send(reply, reply.data[:-1], timeout)]
            time.sleep(SETTLE)
            for reply in held:
                reply.start = time.monotonic_ns()
                _send(reply, reply.data[-1:], timeout)
        else:
            for reply in replies:
                reply.start = time.monotonic_ns()
                _connect(address, [reply], timeout)
                _send(reply, reply.data, timeout)
        _gather(replies, time.monotonic() + timeout, ended)
    finally:
        for reply in replies:
            reply.socket.close()
    return replies


def send(address: Address, request: Request, timeout: float = 20.0) -> Response:
    """Send one request and return its answer. Raises `OSError` if there is none."""
    [reply] = together(address, [request], release=Release.PLAIN, timeout=timeout)
    if reply.response is None:
        raise OSError(errno.EIO, f"{request.method} {request.path}: {reply.problem}")
    return reply.response


def _bytes(address: Address, request: Request) -> bytes:
    headers = {**request.headers, "Connection": "close"}
    host = headers.pop("Host", authority(*address))
    return framing.request_bytes(
        request.method, request.path, host, headers=headers, body=request.body
    )


def _socket() -> socket.socket:
    opened = socket.socket()
    opened.setblocking(False)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _connect(address: Address, replies: Sequence[_Exchange], timeout: float) -> None:
    """Open all connections; one that cannot be opened is the end of its reply."""
    give_up = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for reply in replies:
            reply.socket.connect_ex(address)
            waiting.register(reply.socket, selectors.EVENT_WRITE, reply)
        while waiting.get_map() and time.monotonic() < give_up:
            for key, _ in waiting.select(0.1):
                waiting.unregister(key.fileobj)
                if problem := key.data.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    _end(key.data, f"not connected: {errno.errorcode.get(problem, problem)}")
        for key in list(waiting.get_map().values()):
            _end(key.data, "not connected in time")


def _send(reply: _Exchange, data: bytes, timeout: float) -> bool:
    """Send these bytes; return whether the exchange goes on."""
    if reply.end:
        return False
    try:
        reply.socket.settimeout(timeout)
        reply.socket.sendall(data)
        reply.socket.setblocking(False)
    except OSError as error:
        # The server may have answered before it read everything, and closed.
        reply.problem = f"not sent: {error.strerror or error}"
    return True


def _gather(
    replies: Sequence[_Exchange], give_up: float, ended: Callable[[int, Reply], None]
) -> None:
    with selectors.DefaultSelector() as waiting:
        for number, reply in enumerate(replies):
            if reply.end:
                ended(number, reply)
            else:
                waiting.register(reply.socket, selectors.EVENT_READ, (number, reply))
        while waiting.get_map() and time.monotonic() < give_up:
            for key, _ in waiting.select(0.1):
                number, reply = key.data
                if _read(reply):
                    waiting.unregister(key.fileobj)
                    # Some servers do nothing else until the client has closed, too.
                    reply.socket.close()
                    ended(number, reply)
        for key in list(waiting.get_map().values()):
            number, reply = key.data
            _end(reply, reply.problem)
            ended(number, reply)


def _read(reply: _Exchange) -> bool:
    """Take in what has arrived; return whether the exchange is over."""
    try:
        data = reply.socket.recv(framing.READ_SIZE)
    except BlockingIOError:
        return False
    except OSError as error:
        _end(reply, f"cut: {error.strerror}")
        return True
    reply.received += data
    try:
        answer = framing.parse(bytes(reply.received), closed=not data)
    except framing.BadResponse:
        _end(reply, "not an answer in HTTP/1.1")
        return True
    if answer is not None:
        reply.response = Response(answer.status, answer.headers(), answer.body)
        _end(reply, "")
    elif not data:
        _end(reply, "closed without an answer")
    return bool(reply.end)


def _end(reply: Reply, problem: str) -> None:
    reply.end, reply.problem = time.monotonic_ns(), problem
    reply.start = reply.start or reply.end
