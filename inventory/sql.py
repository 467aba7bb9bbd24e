"""SQL over arrays: many values in one parameter."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from django.db import connection


def array(values: Iterable[int | float | str]) -> str:
    """Values as a PostgreSQL array literal; cast it where it is used, ``%s::bigint[]``.

    psycopg adapts a list element by element in Python, which for a batch of hundreds costs more
    than the statement. Texts must be free of quotes, commas and braces: numbers, hex, UUIDs.
    """
    return "{" + ",".join(map(str, values)) + "}"


def cursor() -> psycopg.ClientCursor:
    """A bare cursor of the current connection, which takes several statements at once.

    They go out together and run one after the other, each seeing what was committed before it
    began. Django's own cursor would do, at several times the cost.
    """
    connection.ensure_connection()
    return psycopg.ClientCursor(connection.connection)
