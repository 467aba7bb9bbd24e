"""The servers of the lock package's tests."""

import gc
from collections.abc import Callable, Iterator

import psycopg
import pytest

from course.lessons.lesson_11_table_row.lock import TABLE as LOCKS
from course.lessons.lesson_13_unique_index.lock import TABLE as REFUNDS
from locking.tests.conftest import (
    own_valkey,
    store,
    store_server,
    valkey,
    valkey_server,
)
from locking.tests.servers import Postgres

__all__ = [
    "dropped_leases",
    "own_valkey",
    "store",
    "store_server",
    "valkey",
    "valkey_server",
]


@pytest.fixture
def dropped_leases() -> Iterator[None]:
    """Collect the leases that the test has dropped while it still ignores their warnings."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a server with the tables of the lessons; return its address."""
    with Postgres() as server:
        with psycopg.connect(server.endpoint, autocommit=True) as connection:
            connection.execute(LOCKS)
            connection.execute(REFUNDS)
        yield server.endpoint


@pytest.fixture
def connect(postgres: str) -> Iterator[Callable[..., psycopg.Connection]]:
    """Return what connects to the server; the connections are closed at the end."""
    opened: list[psycopg.Connection] = []

    def connect(*, autocommit: bool = True) -> psycopg.Connection:
        opened.append(psycopg.connect(postgres, autocommit=autocommit))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()
