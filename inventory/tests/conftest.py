"""Fixtures of this package's tests, which need nothing of the project but a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, settings

from development.servers import Valkey
from inventory import conf, services
from inventory.tests import own_redis as given

# A busy machine generates examples slowly, which is no mistake of the tests.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(scope="session")
def _redis_url() -> Iterator[str]:
    with Valkey() as server:
        yield server.endpoint


@pytest.fixture(autouse=True)
def own_redis(_redis_url: str) -> Iterator[None]:
    """A private Redis: in the project's own, other items with the same ids may be locked."""
    with override_settings(REDIS_URL=_redis_url, **given.SETTINGS):
        yield


@pytest.fixture(autouse=True)
def own_seller() -> Iterator[None]:
    """The app's own seller, whatever sells in the project."""
    with override_settings(INVENTORY_SELLER=conf.SELLER.default):
        yield


@pytest.fixture
def stock() -> Callable[[int], int]:
    """Return a function that makes an item with that many units and returns its id."""

    def make(units: int) -> int:
        pk: int = services.stock("phone", units).pk
        return pk

    return make
