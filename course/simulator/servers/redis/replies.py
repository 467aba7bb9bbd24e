"""The server's replies and its parsing of numbers."""

from __future__ import annotations

from typing import Any


class RedisError(Exception):
    """An error reply; the text is what the server would send after the minus sign."""


class Status(bytes):
    """A status reply (`+OK`), which is a table for scripts, not a string."""

    __slots__ = ()


OK = Status(b"OK")
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
NOT_A_FLOAT = "ERR value is not a valid float"
SYNTAX = "ERR syntax error"


def integer(text: bytes) -> int:
    """Return the number in an argument, or the server's error."""
    try:
        return int(text)
    except ValueError:
        raise RedisError(NOT_AN_INTEGER) from None


def score(text: bytes) -> float:
    """Return a sorted set's score, or the server's error."""
    try:
        return float(text)
    except ValueError:
        raise RedisError(NOT_A_FLOAT) from None


def span(values: list[Any], start: int, stop: int) -> list[Any]:
    """Resolve a Redis range: both ends inclusive, negative indexes from the right."""
    size = len(values)
    first = max(start + size, 0) if start < 0 else start
    last = stop + size if stop < 0 else stop
    return values[first : last + 1] if last >= first else []
