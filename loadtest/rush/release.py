"""Send many requests at one moment.

A plain client connects and sends when it is told to, so that the first request has been served
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


@dataclass(slots=True)
class _Exchange:
    data: bytes
    reply: Reply
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)


def together(
    address: Address,
    requests: Sequence[Request],
    *,
    release: Release = Release.LAST_BYTE,
    timeout: float = 30.0,
    ended: Callable[[int, Reply], None] = lambda _number, _reply: None,
) -> list[Reply]:
    """Send all requests at one moment and gather their answers.

    Args:
        address: of the shop.
        requests: each on a connection of its own.
        release: how.
        timeout: seconds for all answers, and as many for getting ready.
        ended: called as soon as a request has come to its end, with its number and its reply.
    """
    exchanges = [_Exchange(_bytes(address, each), Reply(), _socket()) for each in requests]
    try:
        if release is Release.LAST_BYTE:
            _connect(address, exchanges, timeout)
            held = [each for each in exchanges if _send(each, each.data[:-1], timeout)]
            time.sleep(SETTLE)
            for each in held:
                each.reply.start = time.monotonic_ns()
                _send(each, each.data[-1:], timeout)
        else:
            for each in exchanges:
                each.reply.start = time.monotonic_ns()
                _connect(address, [each], timeout)
                _send(each, each.data, timeout)
        _gather(exchanges, time.monotonic() + timeout, ended)
    finally:
        for each in exchanges:
            each.socket.close()
    return [each.reply for each in exchanges]


def send(address: Address, request: Request, timeout: float = 20.0) -> Response:
    """Send one request and return its answer. Raises `OSError` if there is none."""
    [reply] = together(address, [request], release=Release.PLAIN, timeout=timeout)
    if reply.response is None:
        raise OSError(errno.EIO, f"{request.method} {request.path}: {reply.problem}")
    return reply.response


def _bytes(address: Address, request: Request) -> bytes:
    headers = {**request.headers, "Connection": "close"}
    host = headers.pop("Host", f"{address[0]}:{address[1]}")
    return framing.request_bytes(
        request.method, request.path, host, headers=headers, body=request.body
    )


def _socket() -> socket.socket:
    opened = socket.socket()
    opened.setblocking(False)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _connect(address: Address, exchanges: Sequence[_Exchange], timeout: float) -> None:
    """Open all connections; one that cannot be opened is the end of its exchange."""
    give_up = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for each in exchanges:
            each.socket.connect_ex(address)
            waiting.register(each.socket, selectors.EVENT_WRITE, each)
        while waiting.get_map() and time.monotonic() < give_up:
            for key, _ in waiting.select(0.1):
                waiting.unregister(key.fileobj)
                if problem := key.data.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    _end(key.data, f"not connected: {errno.errorcode.get(problem, problem)}")
        for key in list(waiting.get_map().values()):
            _end(key.data, "not connected in time")


def _send(exchange: _Exchange, data: bytes, timeout: float) -> bool:
    """Send these bytes; return whether the exchange goes on."""
    if exchange.reply.end:
        return False
    try:
        exchange.socket.settimeout(timeout)
        exchange.socket.sendall(data)
        exchange.socket.setblocking(False)
    except OSError as error:
        # The server may have answered before it read everything, and closed.
        exchange.reply.problem = f"not sent: {error.strerror or error}"
    return True


def _gather(
    exchanges: Sequence[_Exchange], give_up: float, ended: Callable[[int, Reply], None]
) -> None:
    with selectors.DefaultSelector() as waiting:
        for number, each in enumerate(exchanges):
            if each.reply.end:
                ended(number, each.reply)
            else:
                waiting.register(each.socket, selectors.EVENT_READ, (number, each))
        while waiting.get_map() and time.monotonic() < give_up:
            for key, _ in waiting.select(0.1):
                number, each = key.data
                if _read(each):
                    waiting.unregister(key.fileobj)
                    # Some servers do nothing else until the client has closed, too.
                    each.socket.close()
                    ended(number, each.reply)
        for key in list(waiting.get_map().values()):
            number, each = key.data
            _end(each, each.reply.problem)
            ended(number, each.reply)


def _read(exchange: _Exchange) -> bool:
    """Take in what has arrived; return whether the exchange is over."""
    try:
        data = exchange.socket.recv(framing.READ_SIZE)
    except BlockingIOError:
        return False
    except OSError as error:
        _end(exchange, f"cut: {error.strerror}")
        return True
    exchange.received += data
    try:
        answer = framing.parse(bytes(exchange.received), closed=not data)
    except framing.BadResponse:
        _end(exchange, "not an answer in HTTP/1.1")
        return True
    if answer is not None:
        exchange.reply.response = Response(answer.status, _headers(answer.head), answer.body)
        _end(exchange, "")
    elif not data:
        _end(exchange, "closed without an answer")
    return bool(exchange.reply.end)


def _headers(head: bytes) -> dict[str, str]:
    """Return the headers; several of one name are joined by newlines, since cookies hold commas."""
    found: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            name, value = name.strip().lower(), value.strip()
            found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def _end(exchange: _Exchange, problem: str) -> None:
    exchange.reply.end, exchange.reply.problem = time.monotonic_ns(), problem
    exchange.reply.start = exchange.reply.start or exchange.reply.end
