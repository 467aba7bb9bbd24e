"""A closed-loop HTTP load generator in plain Python, cheap enough to share a machine with the shop.

`run` keeps N keep-alive connections busy from one thread: each sends the next request of an
iterator as soon as its last answer is complete. Nothing is parsed beyond the status line and the
length of the body, and requests come as ready bytes, so that the measurement is of the server and
not of the client.

A greenlet per connection would take a third of this code less, and 19 µs of CPU per request instead
of 12 (128 connections): 2 % of what two cores serve of an empty view, and the first connections run
ahead before the last ones have begun.

Like every closed loop it waits for a slow server, and so under-reports the delays that buyers who
do not wait would see; the percentiles are those of requests that were sent.
"""

from __future__ import annotations

import selectors
import socket
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from loadtest.framing import READ_SIZE, BadResponse, Response, parse

# How often time-outs and refused connections are looked at, in nanoseconds.
_TICK_NS = 50_000_000


@dataclass
class Result:
    """What a run measured; a latency is there for every complete answer."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    errors: int = 0
    latencies_ns: array[int] = field(default_factory=lambda: array("q"))

    def summary(self) -> dict[str, Any]:
        """Requests answered, answers/s, percentiles in ms, answers by status, and errors."""
        ordered = sorted(self.latencies_ns)

        def percentile_ms(share: float) -> float:
            if not ordered:
                return 0.0
            return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6, 3)

        return {
            "requests": len(ordered),
            "rps": round(len(ordered) / self.seconds, 1) if self.seconds else 0.0,
            "p50_ms": percentile_ms(0.50),
            "p99_ms": percentile_ms(0.99),
            "max_ms": percentile_ms(1.0),
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
            "errors": self.errors,
        }


def run(
    host: str,
    port: int,
    requests: Iterable[bytes],
    *,
    connections: int,
    seconds: float | None = None,
    count: int | None = None,
    timeout: float = 10.0,
) -> Result:
    """Send `requests` over `connections` connections until time, count or iterator is used up.

    `seconds` and `count` bound the run; without either the iterator must be finite. A request that
    was sent is waited for, at most `timeout` seconds. One whose connection breaks, refuses or
    times out is counted in `errors` and never sent again: a purchase may have happened. The clock
    starts when all connections stand. Raises `OSError` if they cannot be opened at all.
    """
    with _Run((host, port), iter(requests), seconds, count, int(timeout * 1e9)) as load:
        return load.run(connections)


class _Connection:
    __slots__ = ("blocked", "buffer", "sent_at", "socket", "unsent")

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.buffer = b""
        self.unsent = b""
        self.blocked = False  # the socket's buffer is full
        self.sent_at = 0  # 0: no request is under way


class _Run:
    """One measurement: connections, what they wait for, and what they have seen."""

    def __init__(
        self,
        address: tuple[str, int],
        requests: Iterator[bytes],
        seconds: float | None,
        count: int | None,
        timeout_ns: int,
    ) -> None:
        self.address = address
        self.requests = requests
        self.seconds = seconds
        self.left = count
        self.timeout_ns = timeout_ns
        self.stop_at = 0
        self.under_way = 0
        self.finished = False
        self.refused: list[_Connection] = []
        self.connections: list[_Connection] = []
        self.selector = selectors.DefaultSelector()
        self.result = Result()

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for connection in self.connections:
            if connection.socket is not None:
                connection.socket.close()
        self.selector.close()

    def run(self, connections: int) -> Result:
        for _ in range(connections):
            connection = _Connection()
            self._connect(connection)
            self.connections.append(connection)
        started = time.perf_counter_ns()
        self.stop_at = started + int(self.seconds * 1e9) if self.seconds is not None else 2**63
        for connection in self.connections:
            self._send_next(connection, time.perf_counter_ns())
        self._loop()
        self.result.seconds = (time.perf_counter_ns() - started) / 1e9
        return self.result

    def _loop(self) -> None:
        select, tick = self.selector.select, _TICK_NS / 1e9
        next_look = time.perf_counter_ns() + _TICK_NS
        while self.under_way or (self.refused and not self.finished):
            for key, events in select(tick):
                if events & selectors.EVENT_READ:
                    self._receive(key.data)
                else:
                    self._send_rest(key.data)
            now = time.perf_counter_ns()
            if now >= next_look:
                next_look = now + _TICK_NS
                self._look_after(now)

    def _look_after(self, now: int) -> None:
        if now >= self.stop_at:
            self.finished = True
        for connection in self.connections:
            if connection.sent_at and now - connection.sent_at > self.timeout_ns:
                self._failed(connection)
        refused, self.refused = self.refused, []
        for connection in refused:
            self._reconnect(connection)

    def _receive(self, connection: _Connection) -> None:
        assert connection.socket is not None
        try:
            data = connection.socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._failed(connection)
            return
        if not connection.sent_at:
            # An idle connection becomes readable when the server closes it.
            self._disconnect(connection)
            return
        closed = not data
        if connection.buffer:
            data = connection.buffer + data
        try:
            response = parse(data, closed=closed)
        except BadResponse:
            self._failed(connection)
            return
        if response is not None:
            self._answered(connection, response)
        elif closed:
            self._failed(connection)
        else:
            connection.buffer = data

    def _answered(self, connection: _Connection, response: Response) -> None:
        now = time.perf_counter_ns()
        result = self.result
        result.latencies_ns.append(now - connection.sent_at)
        result.statuses[response.status] = result.statuses.get(response.status, 0) + 1
        connection.sent_at = 0
        connection.buffer = b""
        self.under_way -= 1
        # An answer that came before the whole request was sent leaves the rest in the way.
        if response.closes or connection.blocked:
            self._disconnect(connection)
            self._reconnect(connection)
        else:
            self._send_next(connection, now)

    def _send_next(self, connection: _Connection, now: int) -> None:
        """Send the next request, unless the run is over."""
        if self.finished or now >= self.stop_at or self.left == 0:
            self.finished = True
            return
        request = next(self.requests, None)
        if request is None:
            self.finished = True
            return
        if self.left is not None:
            self.left -= 1
        self.under_way += 1
        connection.sent_at = now
        connection.unsent = request
        self._send_rest(connection)

    def _send_rest(self, connection: _Connection) -> None:
        assert connection.socket is not None
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._failed(connection)
            return
        was_waiting = connection.blocked
        connection.unsent = connection.unsent[sent:]
        connection.blocked = bool(connection.unsent)
        if connection.blocked != was_waiting:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.blocked else 0)
            self.selector.modify(connection.socket, wanted, connection)

    def _failed(self, connection: _Connection) -> None:
        """Count the request that was under way, and go on with a new connection."""
        if connection.sent_at:
            connection.sent_at = 0
            self.under_way -= 1
            self.result.errors += 1
        self._disconnect(connection)
        if not self.finished:
            self.refused.append(connection)

    def _connect(self, connection: _Connection) -> None:
        connected = socket.create_connection(self.address, timeout=self.timeout_ns / 1e9)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        connection.socket, connection.buffer, connection.blocked = connected, b"", False
        self.selector.register(connected, selectors.EVENT_READ, connection)

    def _reconnect(self, connection: _Connection) -> None:
        if self.finished:
            return
        try:
            self._connect(connection)
        except OSError:
            self.result.errors += 1
            self.refused.append(connection)
        else:
            self._send_next(connection, time.perf_counter_ns())

    def _disconnect(self, connection: _Connection) -> None:
        if connection.socket is not None:
            self.selector.unregister(connection.socket)
            connection.socket.close()
            connection.socket = None
