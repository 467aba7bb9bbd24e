"""The fixtures of the shop and of its payment provider; sales that a strategy sells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from development.conftest import _running_psp, psp
from inventory.tests.conftest import stock
from lab.strategies import CLASSES
from lab.strategies.choice import open_sale
from shop.catalogue.models import Sale
from shop.conftest import ann, bob, fake_provider, sale

__all__ = ["_running_psp", "ann", "bob", "fake_provider", "psp", "sale", "sale_of", "stock"]


@pytest.fixture
def sale_of(db: None) -> Callable[..., Sale]:
    """Open a sale, sold by a strategy."""

    def make(stock: int = 10, *, limit: int = 2, price: int = 99_900, **more: Any) -> Sale:
        return open_sale(stock=stock, limit=limit, price=price, **more)

    return make


@pytest.fixture
def by(request: pytest.FixtureRequest, settings: Any) -> str:
    """Sell by this strategy wherever the test asks for the app's seller."""
    name: str = request.param
    kind = CLASSES[name]
    settings.INVENTORY_SELLER = f"{kind.__module__}.{kind.__qualname__}"
    return name
