"""Servers in a thread, and one that answers with given bytes, to test clients against."""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from itertools import count
from typing import TypeVar

Reply = Callable[[int, bytes], bytes | None]
AnyServer = TypeVar("AnyServer", bound=socketserver.BaseServer)

ROUND_TRIP = "loadtest.shops.unguarded.ROUND_TRIP"
OVERLAP = 0.05
"""Seconds of a round trip in which a busy machine, too, lets the next request in."""


@contextmanager
def in_thread(server: AnyServer) -> Iterator[AnyServer]:
    """Let a server serve during the block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(reply: Reply, *, delay: threading.Event | None = None) -> Iterator[int]:
    """Serve on a free port; gives the port.

    `reply(number, request)` has the bytes for the request of that number on its connection; None
    closes the connection without a word, bytes that start with `Connection: close` in their head
    are followed by a close. With `delay`, answers wait for the event.
    """

    class Answers(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for number in count(1):
                try:
                    if not (request := _request(self.rfile)):
                        return
                    if delay is not None:
                        delay.wait()
                    if (answer := reply(number, request)) is None:
                        return
                    self.wfile.write(answer)
                except ConnectionError:
                    return  # the client has gone, as clients that wait too long do
                if b"Connection: close" in answer:
                    return

    class Server(socketserver.ThreadingTCPServer):
        request_queue_size = 4096

    with in_thread(Server(("127.0.0.1", 0), Answers)) as server:
        yield server.server_address[1]


def _request(stream: BufferedIOBase) -> bytes:
    """The next request of a connection; nothing at its end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (line := stream.readline()):
            return b""
        head += line
    length = re.search(rb"Content-Length: (\d+)", head)
    return head + stream.read(int(length[1]) if length else 0)


def response(status: str = "200 OK", body: bytes = b"{}", head: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
