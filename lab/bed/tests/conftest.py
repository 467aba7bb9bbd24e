"""Tests with the mark `hosts` need the means to make them."""

from __future__ import annotations

import pytest

from lab.tests.needs import HOSTS
from locking.tests.needs import require


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("hosts"):
        require(HOSTS)
