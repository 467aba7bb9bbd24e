"""Processes for tests: a second shop, which sells on command, and a proxy that loses messages.

The shop takes one command at a time and answers each with a message. A command may name a point at
which to stop: the process reports that point and waits there until it is killed or released.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import django
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.test import override_settings

if not apps.ready:  # in the process that workers are forked from
    django.setup()

from inventory import conf, outbox, services
from inventory.outcomes import Purchase
from inventory.redis import ITEM_LOCK, DegradableLock
from inventory.selling import batch
from inventory.selling.hint import SoldOutItems
from inventory.selling.queue import Seller, seller
from inventory.tests import own_redis
from inventory.tests.helpers import TIMEOUT, counts, crowd, kinds, open_nothing
from locking.tests.helpers import PROCESSES, import_before_forking

import_before_forking(__name__)


class _Shop:
    """What runs in the process; a command is a method and its arguments."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def _stand_still(self, at: str, stop: str) -> None:
        """At the point to stop at, report it and wait for the test to release it."""
        if at == stop:
            self._pipe.send(at)
            self._pipe.recv()

    def sell(self, purchases: Sequence[Any], by: str, threads: int, stop: str) -> list[Any]:
        """Sell by the seller of that dotted path; return the answers in any order."""

        def on_granted(granted: Sequence[Any]) -> list[str]:
            self._stand_still("before_commit", stop)
            return open_nothing(granted)

        real = batch.sell

        def sell_and_stop(*arguments: Any, **how: Any) -> Any:
            sold = real(*arguments, **how)
            self._stand_still("after_commit", stop)
            return sold

        if by != conf.SELLER.get():  # each change is a new seller, who knows of no sold-out item
            override_settings(INVENTORY_SELLER=by).enable()
        with mock.patch.object(Seller, "sell_batch", staticmethod(sell_and_stop)):
            return crowd(partial(services.reserve, on_granted=on_granted), purchases, threads)

    def metrics(self) -> Counter[str]:
        return counts()

    def deliver(self, stop: str) -> int:
        """Deliver the outbox; each message's effect is another message."""

        def handle(payload: Any) -> None:
            outbox.emit("effect", payload)
            self._stand_still("before_commit", stop)

        return outbox.deliver({"cause": handle})


class NoLock(DegradableLock):
    """No lock."""

    def __init__(self) -> None:
        super().__init__("none", lease=1.0, timeout=1.0)

    @contextmanager
    def hold(self, of: int) -> Iterator[None]:
        """Hold nothing."""
        yield


class NoHints(SoldOutItems):
    """Remembers nothing."""

    def ran_out(self, item: int) -> None:
        """Forget it at once."""


def sell_bare() -> None:
    """Let this process sell by the guard alone, without locks and hints."""
    Seller.lock, Seller.hints = NoLock(), NoHints


def serve(pipe: Connection, setup: dict[str, Any]) -> None:
    """Set up, then execute commands until the pipe is closed.

    Args:
        pipe: brings commands, takes their results.
        setup: `database` (its name) and `redis` (its URL); optionally `port` (of the
            database), `pool_timeout` and `lease` (in seconds), `override` (settings), and
            `prepare` (a function to call first).
    """
    database = settings.DATABASES["default"]
    database["NAME"] = setup["database"]
    database["PORT"] = setup.get("port") or database.get("PORT", "")
    options = database.setdefault("OPTIONS", {})
    pool = options.get("pool")
    # Seconds that a purchase waits for an unreachable database.
    timeout = setup.get("pool_timeout", 10)
    options["pool"] = {**(pool if isinstance(pool, dict) else {}), "timeout": timeout}
    if "prepare" in setup:
        setup["prepare"]()
    of_redis = {"REDIS_URL": setup["redis"], **own_redis.SETTINGS}
    override_settings(**of_redis, **setup.get("override", {})).enable()
    seller()  # load it before the race begins
    ITEM_LOCK.lease = setup.get("lease", ITEM_LOCK.lease)
    shop = _Shop(pipe)
    pipe.send("ready")
    while True:
        try:
            command, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(getattr(shop, command)(**arguments))


class Worker:
    """A shop process that sells on command."""

    def __init__(self, **setup: Any) -> None:
        setup = {
            "database": connection.settings_dict["NAME"],
            "redis": settings.REDIS_URL,
            **setup,
        }
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=serve, args=(theirs, setup), daemon=True)
        self._process.start()
        theirs.close()

    def hear(self) -> Any:
        # The test's own timeout bounds the wait.
        return self._pipe.recv()

    def tell(self, command: str, **arguments: Any) -> None:
        self._pipe.send((command, arguments))

    def start(self, purchases: Sequence[Purchase], *, threads: int = 1, stop: str = "") -> None:
        """Start selling, by the seller that is set here now.

        `kinds` counts the answers, unless `stop` names a point to stop at.
        """
        by = conf.SELLER.get()
        self.tell("sell", purchases=purchases, by=by, threads=threads, stop=stop)

    def go_on(self) -> None:
        self.tell("go on")

    def kinds(self) -> Counter[str]:
        return kinds(self.hear())

    def metrics(self) -> Counter[str]:
        self.tell("metrics")
        counted: Counter[str] = self.hear()
        return counted

    def kill(self) -> None:
        self._process.kill()
        self._process.join(TIMEOUT)

    def close(self) -> None:
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
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._cut(self._clients)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                if self.closed:
                    client.close()
                else:
                    threading.Thread(target=self._carry, args=[client], daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._server) as server:
            self._clients.append(client)
            while True:
                for side in select.select([client, server], [], [])[0]:
                    if not (data := side.recv(65536)):
                        return
                    if side is client and self.lose and b"COMMIT\0" in data:
                        self._lose(client, server, data)
                        return
                    (server if side is client else client).sendall(data)

    def _lose(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        self.closed = self.close_after
        if self.lose.pop(0) == "answer":
            server.sendall(data)
            server.recv(65536)  # the answer, which is dropped
        self.lost += 1
        self._cut(self._clients if self.closed else [client])

    def _cut(self, clients: Sequence[socket.socket]) -> None:
        for client in clients:
            with suppress(OSError):  # it may be cut already
                client.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy() -> Iterator[Proxy]:
    between = Proxy()
    try:
        yield between
    finally:
        between.close()
