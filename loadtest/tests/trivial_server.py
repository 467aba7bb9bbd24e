"""A server that answers every request with the same bytes: what a client can be tested against."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Reply = Callable[[int, bytes], bytes | None]


@contextmanager
def answering(reply: Reply, *, delay: threading.Event | None = None) -> Iterator[int]:
    """Serve on a free port; gives the port.

    `reply(number, request)` has the bytes for the request of that number on its connection; None
    closes the connection without a word, bytes that start with `Connection: close` in their head
    are followed by a close. With `delay`, answers wait for the event.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            for number, request in enumerate(_requests(connection), start=1):
                if delay is not None:
                    delay.wait()
                answer = reply(number, request)
                if answer is None:
                    return
                try:
                    connection.sendall(answer)
                except OSError:
                    return  # the client has gone, as clients that wait too long do
                if b"Connection: close" in answer:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=serve, args=[connection]))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connection in connections:
            _hang_up(connection)
        for thread in threads:
            thread.join()


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        """Closed already."""


def _requests(connection: socket.socket) -> Iterator[bytes]:
    """The requests of a connection; none of them has a body that looks like a head."""
    data = b""
    while True:
        try:
            more = connection.recv(65_536)
        except OSError:
            return
        if not more:
            return
        data += more
        while (end := _end(data)) is not None:
            yield data[:end]
            data = data[end:]


def _end(data: bytes) -> int | None:
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return None
    start = data.find(b"Content-Length: ")
    length = int(data[start + 16 : data.find(b"\r", start)]) if 0 <= start < head else 0
    return head + 4 + length if len(data) >= head + 4 + length else None


def response(status: str = "200 OK", body: bytes = b"{}", head: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
