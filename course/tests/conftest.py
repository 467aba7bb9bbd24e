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
    "dropped_leases",
    "own_store",
    "own_valkey",
    "store",
    "store_kind",
    "store_server",
    "valkey",
    "valkey_server",
]


@pytest.fixture
def dropped_leases() -> Iterator[None]:
    """Collect the leases that the test has dropped while it still ignores their warnings."""
    yield
    gc.collect()
