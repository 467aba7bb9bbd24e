"""Servers for the tests of this package; nothing of the rest of the repository is needed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import socket
import socketserver
import threading
import warnings
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import redis.asyncio
from redis import Redis

from development import servers
from development.needs import require
from development.servers import RedisLike, Valkey
from locking.redis_client import connect, connect_async
from locking.tests.sides import SIDES


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker here too, for a project that only copied this package."""
    config.addinivalue_line("markers", "long: starts heavy servers or takes long")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in a loop of its own; close its asyncio clients."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for argument in arguments.values():
                if isinstance(argument, redis.asyncio.Redis):
                    await stack.enter_async_context(argument)
            await asyncio.wait_for(pyfuncitem.obj(**arguments), 60)

    asyncio.run(run())
    return True


@pytest.fixture(scope="module", autouse=True)
def _dropped_leases() -> Iterator[None]:
    """Collect the leases and connections that a module has dropped on purpose.

    Some are part of a cycle. The collector would find them during any later test, which would fail.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def emptied(server: RedisLike) -> Iterator[Redis]:
    with connect(server.endpoint) as client:
        assert isinstance(client, Redis)
        client.flushall()
        yield client


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    """A server that all tests share; a test that kills or pauses a server uses `own_valkey`."""
    with Valkey() as server:
        yield server


@pytest.fixture
def valkey(valkey_server: Valkey) -> Iterator[Redis]:
    """A client of the shared server, emptied first."""
    yield from emptied(valkey_server)


@pytest.fixture
def valkey_async(valkey: Redis, valkey_server: Valkey) -> object:
    """An asyncio client of that server."""
    return connect_async(valkey_server.endpoint)


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    """A server for one test, to be killed, restarted or paused."""
    with Valkey() as server:
        yield server


# -- the same, for tests that run on Valkey and on Redis: the lock's own, and those of its scripts


@pytest.fixture(
    scope="session",
    params=[pytest.param(Valkey, id="valkey"), pytest.param(servers.Redis, id="redis")],
)
def store_server(request: pytest.FixtureRequest) -> Iterator[RedisLike]:
    """A server of either kind that all tests share."""
    require(request.param.need)
    with request.param() as server:
        yield server


@pytest.fixture
def store(store_server: RedisLike) -> Iterator[Redis]:
    """A client of that server, emptied first."""
    yield from emptied(store_server)


@pytest.fixture
def store_async(store: Redis, store_server: RedisLike) -> object:
    """An asyncio client of that server."""
    return connect_async(store_server.endpoint)


@pytest.fixture(params=list(SIDES))
def side(request: pytest.FixtureRequest, store: Redis, store_server: RedisLike) -> Iterator[Any]:
    """Makes locks of either form, blocking and asyncio, on a server of either kind."""
    made = SIDES[request.param](store_server.endpoint)
    yield made
    made.close()


class Gate(socketserver.ThreadingTCPServer):
    """Forwards to a server; does something to the next request that contains a word.

    What it does is a name in `plan`, by the word: "reset" executes the request and breaks the
    connection instead of answering, "refuse" breaks it before the request arrives, "silence"
    executes it and never answers.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.target = ("127.0.0.1", port)
        self.url = f"redis://127.0.0.1:{self.server_address[1]}/0"
        self.plan: dict[str, str] = {}
        self.done: list[str] = []


class _Forward(socketserver.BaseRequestHandler):
    server: Gate

    def handle(self) -> None:
        # One request, one answer: all that a lock's connection ever does.
        with suppress(OSError), socket.create_connection(self.server.target) as server:
            while request := self.request.recv(1 << 16):
                word = next((one for one in self.server.plan if one.encode() in request), "")
                fault = self.server.plan.pop(word, "")
                self.server.done += [fault] * bool(fault)
                if fault == "refuse":
                    return
                server.sendall(request)
                answer = server.recv(1 << 16)
                if fault == "reset":
                    return
                if fault == "silence":
                    self.request.recv(1)  # until the client gives up
                    return
                self.request.sendall(answer)


@pytest.fixture
def gate(store: Redis, store_server: RedisLike) -> Iterator[Gate]:
    """A bad network in front of the server."""
    with Gate(store_server.port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(20)


@pytest.fixture(params=list(SIDES))
def behind(request: pytest.FixtureRequest, gate: Gate) -> Iterator[Any]:
    """Makes locks of either form behind the bad network."""
    made = SIDES[request.param](gate.url)
    yield made
    made.close()
