"""SQL over arrays: many values in one parameter."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from django.db import connection


def array(values: Iterable[int | float | str]) -> str:
    """Return values as a PostgreSQL array literal; cast it where it is used, ``%s::bigint[]``.

    psycopg adapts a list element by element in Python, which costs more than the statement for a
    batch of hundreds. Texts must be free of quotes, commas and braces: numbers, hex, UUIDs.
    """
    return "{" + ",".join(map(str, values)) + "}"


def cursor() -> psycopg.ClientCursor:
    """Return a plain cursor of the current connection, which accepts several statements at once.

    They are sent together and run in order, each with a snapshot of its own. Django's cursor
    does the same at several times the cost.
    """
    connection.ensure_connection()
    return psycopg.ClientCursor(connection.connection)
