"""The servers of the lock package's tests."""

import gc
from collections.abc import Iterator

import pytest

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
    "crashing_clients",
    "own_store",
    "own_valkey",
    "store",
    "store_kind",
    "store_server",
    "valkey",
    "valkey_server",
]


@pytest.fixture
def crashing_clients() -> Iterator[None]:
    """Collect the leases that crashed clients have dropped while the test still ignores them."""
    yield
    gc.collect()
