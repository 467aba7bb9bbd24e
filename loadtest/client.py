"""One buyer's connection to the shop, which never sends anything twice on its own.

Locust's own clients cost three times as much per request, and the load generator shares the
machine with the shop. What matters more: this one knows whether a request can have reached the
shop, and so what may be concluded when no answer comes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

from loadtest.address import authority
from loadtest.framing import READ_SIZE, BadResponse, Response, parse, request_bytes
from loadtest.history import CONNECTION_REFUSED
from loadtest.shop import Request

# Servers drop idle connections after seconds; one that rested this long is looked at before use.
_RESTED = 0.5


class Connection:
    """A keep-alive connection, opened when first needed; blocking, so a green one under gevent."""

    def __init__(self, host: str, port: int, *, timeout: float = 10.0) -> None:
        """`timeout` bounds the connecting and then the whole wait for an answer, in seconds."""
        self.authority = authority(host, port)
        self._address = (host, port)
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._used_at = 0.0

    def request(self, request: Request, headers: Mapping[str, str]) -> Response | str:
        """Send one request and wait for its answer; network trouble is a word and not an error.

        The headers may name another `Host` than the address.
        """
        try:
            connected = self._connected()
        except ConnectionRefusedError:
            return CONNECTION_REFUSED
        except TimeoutError:
            return "timeout"
        except OSError as error:
            return f"not_connected: {error.strerror}"
        host = self.authority
        if "Host" in headers:
            headers = dict(headers)
            host = headers.pop("Host")
        try:
            connected.sendall(
                request_bytes(
                    request.method,
                    request.path,
                    host,
                    headers=headers,
                    body=request.body,
                )
            )
            response = self._receive(connected)
        except TimeoutError:
            return self._broken("timeout")
        except BadResponse:
            return self._broken("bad_reply")
        except OSError:
            return self._broken("reset")
        if response is None:
            return self._broken("empty_reply")
        self._used_at = time.monotonic()
        if response.closes:
            self.close()
        return response

    def like(self) -> Connection:
        """Another connection to the same server."""
        return Connection(*self._address, timeout=self._timeout)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            if time.monotonic() - self._used_at < _RESTED or _alive(self._socket):
                return self._socket
            self.close()
        opened = socket.create_connection(self._address, timeout=self._timeout)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = opened
        return opened

    def _receive(self, connected: socket.socket) -> Response | None:
        """The answer, or None if the server closed without one."""
        data = connected.recv(READ_SIZE)
        response = parse(data, closed=not data) if data else None
        if response is not None or not data:
            return response
        deadline = time.monotonic() + self._timeout
        while response is None:
            if time.monotonic() > deadline:
                raise TimeoutError
            more = connected.recv(READ_SIZE)
            data += more
            response = parse(data, closed=not more)
            if not more:
                break
        return response

    def _broken(self, code: str) -> str:
        self.close()
        return code


def _alive(idle: socket.socket) -> bool:
    """Whether the server left an idle connection open; anything to read means that it did not."""
    timeout = idle.gettimeout()
    idle.settimeout(0)
    try:
        idle.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        idle.settimeout(timeout)
    return False
