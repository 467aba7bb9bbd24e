"""Servers for the tests of this package; nothing of the rest of the repository is needed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
import redis.asyncio
from redis import Redis

from locking.redis_client import connect, connect_async
from locking.tests import servers
from locking.tests.needs import require
from locking.tests.servers import RedisLike, Valkey


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
            for each in arguments.values():
                if isinstance(each, redis.asyncio.Redis):
                    await stack.enter_async_context(each)
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
