"""A clock that stands still until a test lets time pass, however busy the machine is.

The shop asks the database what time it is. For the time of a test, `now()` and its like are found
in a schema of their own, where they read the time from a table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from unittest import mock

from django.contrib.postgres.functions import TransactionNow
from django.db import connection

from shop import checkout
from shop.catalogue import sale_cache

NAMES = ("now", "statement_timestamp", "clock_timestamp", "transaction_timestamp")

INSTALL = """
CREATE SCHEMA still;
CREATE TABLE still.clock AS SELECT now() AS at;
""" + "".join(
    f"CREATE FUNCTION still.{name}() RETURNS timestamptz LANGUAGE sql STABLE "
    "AS 'SELECT at FROM still.clock';"
    for name in NAMES
)

DEFAULTS = """
SELECT table_name, column_name, column_default FROM information_schema.columns
WHERE table_schema = current_schema() AND column_default = ANY(%s)
"""


PROCESS = SimpleNamespace(**vars(time), now=0.0)
PROCESS.monotonic = lambda: PROCESS.now
"""The module `time` for a process whose monotonic clock stands still."""


@contextmanager
def stands_still() -> Iterator[None]:
    """Let the time of the database, and of what a process remembers of it, stand still."""
    calls = [f"{name}()" for name in NAMES]
    with connection.cursor() as cursor:
        cursor.execute(DEFAULTS, [calls])
        columns = cursor.fetchall()
        cursor.execute(INSTALL)
    _set(columns, "still", "SET search_path = public, still, pg_catalog")
    try:
        with (
            mock.patch.object(sale_cache, "time", PROCESS),
            mock.patch.object(checkout, "time", PROCESS),  # and the rate limit
            # Its own word for it is a keyword, which no schema can define.
            mock.patch.object(TransactionNow, "template", "now()"),
        ):
            yield
    finally:
        _set(columns, "pg_catalog", "RESET search_path")
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA still CASCADE")


def _set(columns: list[tuple[str, str, str]], schema: str, path: str) -> None:
    """Change defaults, and where connections look for names; those that are open are closed."""
    with connection.cursor() as cursor:
        for table, column, call in columns:
            default = f"SET DEFAULT {schema}.{call}"
            cursor.execute(f'ALTER TABLE public."{table}" ALTER "{column}" {default}')
        cursor.execute(f'ALTER DATABASE "{connection.settings_dict["NAME"]}" {path}')
    disconnect()


def disconnect() -> None:
    """Close the connection, and the pools."""
    connection.close()
    for pool in connection._connection_pools.values():  # type: ignore[attr-defined]
        pool.close()
    connection._connection_pools.clear()  # type: ignore[attr-defined]


def begin() -> datetime:
    """Set the clock to the second that it is; return it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE still.clock SET at = date_trunc('second', pg_catalog.clock_timestamp()) "
            "RETURNING at"
        )
        time: datetime = cursor.fetchone()[0]
    return time


def advance(seconds: int) -> None:
    """Let so many seconds pass."""
    PROCESS.now += seconds
    with connection.cursor() as cursor:
        cursor.execute("UPDATE still.clock SET at = at + make_interval(secs => %s)", [seconds])
