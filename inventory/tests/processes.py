"""Processes for tests: a second shop, and a proxy that loses messages."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from django.db import connection

from inventory import conf
from inventory.outcomes import Purchase
from inventory.tests.helpers import TIMEOUT, kinds
from inventory.tests.worker import serve
from locking.tests.helpers import PROCESSES, import_before_forking

import_before_forking(serve.__module__)


class Worker:
    """A shop process that sells on command."""

    def __init__(self, **setup: Any) -> None:
        setup = {
            "database": connection.settings_dict["NAME"],
            "redis": conf.REDIS_URL.get(),
            **setup,
        }
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=serve, args=(theirs, setup), daemon=True)
        self._process.start()
        theirs.close()

    def hear(self) -> Any:
        """Return its next message."""
        # The test's own timeout bounds the wait.
        return self._pipe.recv()

    def tell(self, command: str, **arguments: Any) -> None:
        """Send it a command."""
        self._pipe.send((command, arguments))

    def start(
        self,
        purchases: Sequence[Purchase],
        *,
        threads: int = 1,
        stop: str = "",
    ) -> None:
        """Start selling, by the seller that is set here now.

        `kinds` counts the answers, unless `stop` names a point to stop at.
        """
        by = conf.SELLER.get()
        self.tell("sell", purchases=purchases, by=by, threads=threads, stop=stop)

    def go_on(self) -> None:
        """Let it go on from where it stopped."""
        self.tell("go on")

    def kinds(self) -> Counter[str]:
        """Count the answers by kind."""
        return kinds(self.hear())

    def metrics(self) -> dict[str, float]:
        """Return its counters."""
        self.tell("metrics")
        counters: dict[str, float] = self.hear()
        return counters

    def kill(self) -> None:
        """Kill it like the kernel's OOM killer, without cleanup."""
        self._process.kill()
        self._process.join(TIMEOUT)

    def close(self) -> None:
        """End it if it is still running."""
        self.kill()
        self._pipe.close()


@contextmanager
def workers(count: int, **setup: Any) -> Iterator[list[Worker]]:
    """Start workers, ready when the block begins; end them with the block."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            started.append(Worker(**setup))
            stack.callback(started[-1].close)
        for worker in started:
            assert worker.hear() == "ready"
        yield started


class Proxy:
    """A proxy between a worker and PostgreSQL that cuts connections at a chosen COMMIT.

    Attributes:
        lose: what to cut at the next commits, in order: `"answer"` forwards the COMMIT, waits
            for the server's answer and then cuts; `"request"` cuts without forwarding.
        closed: refuse new connections, like a server that is gone.
        close_after: be closed after the next cut.
        lost: number of cuts.
    """

    def __init__(self) -> None:
        settings = connection.settings_dict
        self._server = (settings["HOST"], int(settings["PORT"]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lose: list[str] = []
        self.closed = False
        self.close_after = False
        self.lost = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut all connections."""
        self._listener.close()
        for side in self._open:
            _cut(side)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self.closed:
                client.close()
                continue
            server = socket.create_connection(self._server)
            self._open += [client, server]
            answered = threading.Event()
            for carry in (self._requests, self._answers):
                threading.Thread(target=carry, args=(client, server, answered), daemon=True).start()

    def _requests(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        for data in _received(client):
            if b"COMMIT\0" not in data or not self.lose:
                _send(server, data)
                continue
            self.closed = self.close_after
            if self.lose.pop(0) == "answer":
                answered.clear()
                self._hold = answered
                _send(server, data)
                assert answered.wait(TIMEOUT)
            self.lost += 1
            for side in [*self._open] if self.closed else [client]:
                _cut(side)
        _cut(server)

    _hold: threading.Event | None = None

    def _answers(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        for data in _received(server):
            if self._hold is answered:
                self._hold = None
                answered.set()  # drop the answer
                break
            _send(client, data)
        _cut(client)


def _received(side: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = side.recv(65536)
        except OSError:
            return  # cut by the other thread
        if not data:
            return
        yield data


def _send(side: socket.socket, data: bytes) -> None:
    try:
        side.sendall(data)
    except OSError:
        _cut(side)


def _cut(side: socket.socket) -> None:
    with suppress(OSError):  # the peer may have closed first
        side.shutdown(socket.SHUT_RDWR)
    side.close()


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A proxy in front of the test's database."""
    between = Proxy()
    try:
        yield between
    finally:
        between.close()
