"""Servers for the tests of this package; nothing of the rest of the repository is needed."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from redis import Redis

from locking.redis_client import connect
from locking.tests import servers
from locking.tests.needs import require
from locking.tests.servers import RedisLike, Valkey


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker here too, for a project that only copied this package."""
    config.addinivalue_line("markers", "long: starts heavy servers or takes long")


@pytest.fixture(scope="module", autouse=True)
def _dropped_leases() -> Iterator[None]:
    """Collect the leases and connections that a module has dropped on purpose.

    Some are part of a cycle. The collector would find them during any later test, which would fail.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    """A server that all tests share; a test that kills or pauses a server uses `own_valkey`."""
    with Valkey() as server:
        assert isinstance(server, Valkey)
        yield server


@pytest.fixture
def valkey(valkey_server: Valkey) -> Iterator[Redis]:
    """A client of the shared server, emptied first."""
    with connect(valkey_server.endpoint) as client:
        assert isinstance(client, Redis)
        client.flushall()
        yield client


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    """A server for one test, to be killed, restarted or paused."""
    with Valkey() as server:
        assert isinstance(server, Valkey)
        yield server


# -- the same, for tests that run on Valkey and on Redis: the lock's own, and those of its scripts


@pytest.fixture(
    scope="session",
    params=[pytest.param(Valkey, id="valkey"), pytest.param(servers.Redis, id="redis")],
)
def store_kind(request: pytest.FixtureRequest) -> type[RedisLike]:
    """Valkey or Redis proper."""
    kind: type[RedisLike] = request.param
    require(kind.need)
    return kind


@pytest.fixture(scope="session")
def store_server(store_kind: type[RedisLike]) -> Iterator[RedisLike]:
    """A server of either kind that all tests share."""
    with store_kind() as server:
        assert isinstance(server, RedisLike)
        yield server


@pytest.fixture
def store(store_server: RedisLike) -> Iterator[Redis]:
    """A client of that server, emptied first."""
    with connect(store_server.endpoint) as client:
        assert isinstance(client, Redis)
        client.flushall()
        yield client


@pytest.fixture
def own_store(store_kind: type[RedisLike]) -> Iterator[RedisLike]:
    """A server of either kind for one test, to be killed, restarted or paused."""
    with store_kind() as server:
        assert isinstance(server, RedisLike)
        yield server
