"""The servers of the lock package's tests, and what all tests of the course share."""

import gc
from collections.abc import Callable, Iterator

import psycopg
import pytest

from course.lessons.lesson_11_table_row.lock import TABLE as LOCKS
from course.lessons.lesson_13_unique_index.lock import TABLE as REFUNDS
from locking.tests.conftest import *  # noqa: F403 - its fixtures
from locking.tests.servers import Postgres


def pytest_itemcollected(item: pytest.Item) -> None:
    """Allow what a client does that crashes in the simulation: it drops its lease."""
    item.add_marker(pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"))


@pytest.fixture(autouse=True)
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
