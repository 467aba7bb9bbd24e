"""SQL over many rows: all of them in one parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection

_encode = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode


def rows(values: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as one JSON parameter, for `json_to_recordset`.

    JSON quotes every value, so no text can end its field or its row. The server refuses NUL and
    half a surrogate pair, which no text of PostgreSQL can hold.

    Args:
        values: each row's columns by name: numbers, texts, booleans, None or what JSON nests.
    """
    return _encode(values)


def cursor() -> psycopg.ClientCursor:
    """Return a plain cursor of the current connection, which accepts several statements at once.

    They are sent together and run in order, each with a snapshot of its own. Django's cursor
    does the same at several times the cost.
    """
    connection.ensure_connection()
    return psycopg.ClientCursor(connection.connection)
