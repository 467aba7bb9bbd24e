"""A closed-loop HTTP load generator in plain Python, cheap enough to share a machine with the shop.

`run` keeps N keep-alive connections busy, each by a greenlet that sends the next request of an
iterator as soon as its last answer is complete. Nothing is parsed beyond the status line and the
length of the body, and requests come as ready bytes, so that the measurement is of the server and
not of the client: a request costs it 19 µs of CPU.

Like every closed loop it waits for a slow server, and so under-reports the delays that buyers who
do not wait would see; the percentiles are those of requests that were sent.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import gevent
from gevent import socket

from loadtest.framing import READ_SIZE, BadResponse, Response, parse

PAUSE = 0.05
"""Seconds until a refused connection is tried again."""


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
    was sent is waited for, until nothing has come for `timeout` seconds. One whose connection
    breaks, refuses or times out is counted in `errors` and never sent again: a purchase may have
    happened. The clock starts when all connections stand. Raises `OSError` if they cannot be
    opened at all.
    """
    return _Run((host, port), iter(requests), seconds, count, timeout).run(connections)


class _Run:
    """One measurement: what bounds it, and what its connections have seen."""

    def __init__(
        self,
        address: tuple[str, int],
        requests: Iterator[bytes],
        seconds: float | None,
        count: int | None,
        timeout: float,
    ) -> None:
        self.address = address
        self.requests = requests
        self.seconds = seconds
        self.left = count
        self.timeout = timeout
        self.stop_at = 0
        self.finished = False
        self.result = Result()

    def run(self, connections: int) -> Result:
        with ExitStack() as cleanup:
            opened = [cleanup.enter_context(self._connect()) for _ in range(connections)]
            started = time.perf_counter_ns()
            self.stop_at = started + int(self.seconds * 1e9) if self.seconds is not None else 2**63
            # Each gets its first request here: else the first ones may use up all.
            users = [gevent.spawn(self._use, each, self._next()) for each in opened]
            gevent.joinall(users, raise_error=True)
            self.result.seconds = (time.perf_counter_ns() - started) / 1e9
        return self.result

    def _use(self, connection: Any, request: bytes | None) -> None:
        while connection is not None and request is not None:
            if not self._ask(connection, request):
                connection.close()
                connection = self._reconnect()
            request = self._next()
        if connection is not None:
            connection.close()

    def _ask(self, connection: Any, request: bytes) -> bool:
        """Send a request and count its answer; return whether the connection can be used again."""
        sent_at = time.perf_counter_ns()
        try:
            connection.sendall(request)
            response = _answer(connection)
        except (OSError, BadResponse):
            self.result.errors += 1
            return False
        self.result.latencies_ns.append(time.perf_counter_ns() - sent_at)
        statuses = self.result.statuses
        statuses[response.status] = statuses.get(response.status, 0) + 1
        return not response.closes

    def _next(self) -> bytes | None:
        """Return the next request, None when the run is over."""
        if self._is_over():
            return None
        request = next(self.requests, None)
        if request is None:
            self.finished = True
        elif self.left is not None:
            self.left -= 1
        return request

    def _is_over(self) -> bool:
        return self.finished or self.left == 0 or time.perf_counter_ns() >= self.stop_at

    def _connect(self) -> Any:
        connected = socket.create_connection(self.address, timeout=self.timeout)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _reconnect(self) -> Any:
        """Return a new connection, None if the run is over before there is one."""
        while not self._is_over():
            try:
                return self._connect()
            except OSError:
                self.result.errors += 1
                gevent.sleep(PAUSE)
        return None


def _answer(connection: Any) -> Response:
    data = b""
    while True:
        part = connection.recv(READ_SIZE)
        data += part
        if (response := parse(data, closed=not part)) is not None:
            return response
        if not part:
            raise BadResponse(data[:80])
