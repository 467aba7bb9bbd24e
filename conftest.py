"""Real servers for every test: a private PostgreSQL and Valkey, unless the URLs say otherwise.

Django is set up here and not by an ini setting, since pytest-django would read the settings before
this file could start the servers that they name.
"""

import atexit
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import django
import pytest

from shop import environment

SETTINGS = environment.own("development")["test_settings"]
pytest_plugins = ["shop.tests.selection"]
SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

_servers = ExitStack()


def _give_servers() -> None:
    if all(os.environ.get(name) for name in SERVER_VARIABLES):
        return
    from development import StackError
    from development.embedded import private_servers
    from development.system_errors import explain

    try:
        servers = _servers.enter_context(private_servers(durable=False))
    except (StackError, OSError) as error:
        sys.exit(f"error: {explain(error) or error}")
    atexit.register(_servers.close)
    os.environ.update(servers.urls.as_environment())
    os.environ["SHOP_DATA"] = str(servers.folder)


def _separate_parallel_workers() -> None:
    """Give each worker of pytest-xdist its own Redis databases; pytest-django does it for SQL."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        return
    first = 2 + 2 * int(worker.removeprefix("gw"))
    for name, number in (("REDIS_URL", first), ("CELERY_BROKER_URL", first + 1)):
        os.environ[name] = f"{os.environ[name].rpartition('/')[0]}/{number}"


def pytest_unconfigure() -> None:
    _servers.close()


def _hear_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to it, and all its children after it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_hear_ctrl_c()
_give_servers()
_separate_parallel_workers()
os.environ["SHOP_DEMO"] = str(int(SETTINGS == environment.DEMO_SETTINGS))
os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
django.setup()

from django.db import connections  # noqa: E402 - needs Django
from pytest_django import DjangoDbBlocker  # noqa: E402

from shop.tests import quick  # noqa: E402

quick.install()

FAREWELL = 30.0
"""Seconds for the sessions of processes that tests have killed: the server notices an end when it
next speaks to the client."""


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Drop the tests' databases only when nobody has a session there any more."""
    yield
    end = time.monotonic() + FAREWELL
    with django_db_blocker.unblock():
        databases: Sequence[Any] = connections.all()
        for database in databases:
            database.close()
            database.close_pool()
            while time.monotonic() < end and _sessions(database):
                time.sleep(0.1)


def _sessions(database: Any) -> int:
    name = database.settings_dict["NAME"]
    with database._nodb_cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [name])
        return int(cursor.fetchone()[0])


def pytest_configure() -> None:
    # Workers of pytest-xdist inherit the environment. With this variable set, pytest-django would
    # read their settings before this file has given each its own Redis databases.
    del os.environ["DJANGO_SETTINGS_MODULE"]


def pytest_collection_finish() -> None:
    """Name the settings again, for the processes that tests start."""
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    # No collection needs to look through all modules and tests again; some tests ask for one.
    gc.collect()
    gc.freeze()
