"""The fixtures of inventory's tests."""

from __future__ import annotations

from typing import Any

import pytest

from inventory.tests.conftest import stock
from lab.strategies import CLASSES

__all__ = ["by", "stock"]


@pytest.fixture
def by(request: pytest.FixtureRequest, settings: Any) -> str:
    """Sell by this strategy wherever the test asks for the app's seller."""
    name: str = request.param
    kind = CLASSES[name]
    settings.INVENTORY_SELLER = f"{kind.__module__}.{kind.__qualname__}"
    return name
