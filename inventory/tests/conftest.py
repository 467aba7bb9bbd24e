"""What the tests of the stock share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory import services


@pytest.fixture
def stock() -> Callable[[int], int]:
    """Make an item with that many units; returns its id."""

    def make(units: int) -> int:
        pk: int = services.stock("phone", units).pk
        return pk

    return make
