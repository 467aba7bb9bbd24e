"""SQL over arrays: many values in one parameter."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

import psycopg
from django.db import connection


def array(values: Iterable[int | float | str]) -> str:
    """Values as a PostgreSQL array literal; cast it where it is used, ``%s::bigint[]``.

    psycopg adapts a list element by element in Python, which for a batch of hundreds costs more
    than the statement. Texts must be free of quotes, commas and braces: numbers, hex, UUIDs.
    """
    return "{" + ",".join(map(str, values)) + "}"


def pipeline() -> AbstractContextManager[object]:
    """Send statements without waiting for each answer; they still run one after the other."""
    connection.ensure_connection()
    return connection.connection.pipeline()  # type: ignore[no-any-return]


def cursor() -> psycopg.Cursor:
    """A cursor of the current connection that sends parameters apart from the statement.

    Django's own writes them into the SQL text.
    """
    connection.ensure_connection()
    return psycopg.Cursor(connection.connection)
