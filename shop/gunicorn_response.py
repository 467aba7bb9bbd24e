"""gunicorn's responses, with headers and body in one packet.

gunicorn sends them one after the other, which is two system calls, and for the client often two
packets to wake up for. An answer of the API is a few hundred bytes.
"""

from __future__ import annotations

from typing import Any

from gunicorn.http import wsgi


class _Kept:
    """Keeps what is to be sent; stands in for a socket."""

    def __init__(self) -> None:
        self.data = b""

    def sendall(self, data: bytes) -> None:
        self.data += data


class Response(wsgi.Response):
    """A response whose headers wait for the first part of the body."""

    sock: Any

    def write(self, arg: bytes) -> None:
        """Send a part of the body."""
        if self.headers_sent:
            super().write(arg)
            return
        socket, self.sock = self.sock, _Kept()
        try:
            super().write(arg)
        finally:
            kept, self.sock = self.sock, socket
        socket.sendall(kept.data)


def install() -> None:
    """Let the workers of this process use it."""
    wsgi.Response = Response
