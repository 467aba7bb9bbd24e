"""A signed-in browser without JavaScript."""

import pytest
from django.core.cache import cache

from shop.tests.catalogue import a_buyer


@pytest.fixture(autouse=True)
def _nothing_kept():
    cache.clear()


@pytest.fixture
def buyer():
    return a_buyer()


@pytest.fixture
def browser(client, buyer):
    client.force_login(buyer)
    return client
