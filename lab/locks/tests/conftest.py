"""The servers of the lock package's tests."""

from locking.tests.conftest import (
    own_store,
    own_valkey,
    store,
    store_kind,
    store_server,
    valkey,
    valkey_server,
)

__all__ = [
    "own_store",
    "own_valkey",
    "store",
    "store_kind",
    "store_server",
    "valkey",
    "valkey_server",
]
