"""The servers of the lock package's tests, the commands, and what all tests here share."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial

import psycopg
import pytest
from django.core.management import BaseCommand, CommandError, call_command

from course.lessons.lesson_11_table_row.lock import TABLE as LOCKS
from course.lessons.lesson_13_unique_index.lock import TABLE as REFUNDS
from course.management.commands import explore, lesson
from development.servers import Postgres
from locking.tests.conftest import *  # noqa: F403 - its fixtures


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
    with ExitStack() as opened:

        def connect(*, autocommit: bool = True) -> psycopg.Connection:
            connection = psycopg.connect(postgres, autocommit=autocommit)
            return opened.enter_context(closing(connection))

        yield connect


def run(command: BaseCommand, *words: str) -> int:
    """Run a command as `manage.py` does; return its exit code."""
    try:
        call_command(command, *words)
    except SystemExit as end:
        return int(end.code or 0)
    except CommandError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.returncode
    return 0


lesson_command = partial(run, lesson.Command())
explore_command = partial(run, explore.Command())
