"""What the tests of this package share; of the project around it they need a database only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import override_settings

from inventory import services
from locking.tests.servers import Valkey


@pytest.fixture(scope="session")
def _redis_url() -> Iterator[str]:
    with Valkey() as server:
        yield server.endpoint


@pytest.fixture(autouse=True)
def own_redis(_redis_url: str) -> Iterator[None]:
    """A Redis that is the tests' own: items of a project that is being developed beside it have
    the same ids, and must not be told that they are sold out.
    """
    with override_settings(REDIS_URL=_redis_url):
        yield


@pytest.fixture
def stock() -> Callable[[int], int]:
    """Make an item with that many units; returns its id."""

    def make(units: int) -> int:
        pk: int = services.stock("phone", units).pk
        return pk

    return make
