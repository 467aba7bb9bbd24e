"""Another database of the same server, for Django's queries in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections


@contextmanager
def using(name: str) -> Iterator[None]:
    """Let Django's queries of this thread go to the database of this name."""
    usual = connections[DEFAULT_DB_ALIAS]
    other = usual.copy()
    # Without the pool, which is one per alias and so connected to the usual database.
    options = {**other.settings_dict["OPTIONS"], "pool": False}
    other.settings_dict = {**other.settings_dict, "NAME": name, "OPTIONS": options}
    connections[DEFAULT_DB_ALIAS] = other
    try:
        yield
    finally:
        other.close()
        connections[DEFAULT_DB_ALIAS] = usual
