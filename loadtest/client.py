"""One buyer's connection to the shop, which never sends anything twice on its own.

Locust's own clients cost three times as much per request, and the load generator shares the
machine with the shop. What matters more: this one knows whether a request can have reached the
shop, and so what may be concluded when no answer comes.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from loadtest.framing import READ_SIZE, BadResponse, Response, parse, request_bytes
from loadtest.history import CONNECTION_REFUSED, Shown, Told

_ORDER_LINK = re.compile(rb"/orders/(\d{1,19})/")

# Servers drop idle connections after seconds; one that rested this long is looked at before use.
_RESTED = 0.5


class Answer(NamedTuple):
    """What came back: `status` 0 and the reason as `code` if nothing did."""

    status: int
    code: str
    body: dict[str, Any]
    retry_after: float
    length: int
    orders: Sequence[str] = ()
    """The orders to which a page links."""

    @property
    def order(self) -> str | None:
        """The id of the order in the answer, if it names one."""
        identity = self.body.get("id")
        return None if identity is None else str(identity)

    @property
    def shown(self) -> Shown | None:
        """What the answer shows of an order or a sale; None if it shows none."""
        body = self.body
        try:
            money, status = body["price" if "price" in body else "amount"], str(body["status"])
            amount, currency = int(money["amount"]), str(money["currency"])
            if "price" in body:
                return Shown(amount, currency, status, available=int(body["available"]))
            refunded = int(body["refunded"]["amount"])
            returned = sum(int(line["returned"]) for line in body["lines"])
            return Shown(amount, currency, status, refunded, returned)
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def told(self) -> Told | None:
        """What a refusal or a sale says of the units that are left; None if it says nothing."""
        said = {name: self.body[name] for name in Told.__struct_fields__ if name in self.body}
        try:
            return msgspec.convert(said, Told) if said else None
        except msgspec.ValidationError:
            return None


class Connection:
    """A keep-alive connection, opened when first needed; blocking, so a green one under gevent."""

    def __init__(self, host: str, port: int, *, timeout: float = 10.0) -> None:
        """`timeout` bounds the connecting and then the whole wait for an answer, in seconds."""
        self.authority = f"{host}:{port}"
        self._address = (host, port)
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._used_at = 0.0

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        """Send one request and wait for its answer. Network trouble is an answer, not an error."""
        try:
            connected = self._connected()
        except ConnectionRefusedError:
            return _nothing(CONNECTION_REFUSED)
        except TimeoutError:
            return _nothing("timeout")
        except OSError as error:
            return _nothing(f"not_connected: {error.strerror}")
        try:
            connected.sendall(
                request_bytes(method, path, self.authority, headers=headers, body=body)
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
        return _answer(response)

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

    def _broken(self, code: str) -> Answer:
        self.close()
        return _nothing(code)


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


def _nothing(code: str) -> Answer:
    return Answer(0, code, {}, 0.0, 0)


def _answer(response: Response) -> Answer:
    orders: list[str] = []
    try:
        body = msgspec.json.decode(response.body) if response.body else {}
    except (ValueError, RecursionError):
        body = {}
        orders = sorted({found.decode() for found in _ORDER_LINK.findall(response.body)})
    if not isinstance(body, dict):
        body = {}
    code = ""
    retry_after = 0.0
    if response.status >= 400:
        code = str(body.get("code", ""))
        wait = response.header("retry-after")
        retry_after = float(wait) if wait and wait.isdigit() else 0.0
    return Answer(response.status, code, body, retry_after, len(response.body), orders)
