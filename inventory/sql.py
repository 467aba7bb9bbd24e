"""SQL over arrays: many values in one parameter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import psycopg
from django.db import connection

Value = int | float | str | None

_ALL_PLAIN = re.compile(r"[-+.0-9a-f]+(?:,[-+.0-9a-f]+)*").fullmatch
"""Matches numbers and hexadecimal digits, which need no quotes in an array."""


def array(values: Collection[Value]) -> str:
    """Return values as a PostgreSQL array literal; cast it where it is used, `%s::bigint[]`.

    psycopg adapts a list element by element in Python, which costs more than the statement for a
    batch of hundreds.
    """
    return arrays(zip(values, strict=True))[0] if values else "{}"


def arrays(rows: Iterable[Sequence[Value]]) -> list[str]:
    """Return an array literal for each column of the rows, of which there is at least one."""
    literals = []
    for column in zip(*rows, strict=True):
        text = ",".join(map(str, column))
        if text.count(",") != len(column) - 1 or not _ALL_PLAIN(text):
            text = ",".join(map(_quoted, column))
        literals.append(f"{{{text}}}")
    return literals


def _quoted(value: Value) -> str:
    if value is None:
        return "NULL"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def cursor() -> psycopg.ClientCursor:
    """Return a plain cursor of the current connection, which accepts several statements at once.

    They are sent together and run in order, each with a snapshot of its own. Django's cursor
    does the same at several times the cost.
    """
    connection.ensure_connection()
    return psycopg.ClientCursor(connection.connection)
