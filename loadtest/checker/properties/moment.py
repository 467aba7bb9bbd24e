"""Times as evidence writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(microseconds: int) -> str:
    """Write a time of the database's clock: `10:20:30.123456`, in UTC."""
    try:
        return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%H:%M:%S.%f}"
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs"
