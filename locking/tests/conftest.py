"""Servers for the tests of this package; nothing of the rest of the repository is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from locking.redis_client import connect
from locking.tests.servers import Valkey


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    """A server that all tests share; who kills or pauses one uses `own_valkey`."""
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
