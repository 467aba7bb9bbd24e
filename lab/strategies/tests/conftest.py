"""The fixtures of inventory's tests."""

from __future__ import annotations

from typing import Any

import pytest

from inventory.tests.conftest import stock
from lab.strategies.tests.helpers import path_of

__all__ = ["by", "stock"]


@pytest.fixture
def by(request: pytest.FixtureRequest, settings: Any) -> str:
    """Sell by this strategy wherever the test asks for the app's seller."""
    name: str = request.param
    settings.INVENTORY_SELLER = path_of(name)
    return name
