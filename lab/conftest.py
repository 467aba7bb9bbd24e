"""The shop's fixtures, and the demo's payment provider as a separate process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inventory.tests.conftest import stock
from lab.strategies import CLASSES
from lab.strategies.choice import open_sale
from lab.tests.psp import KEY, SECRET, Psp, running_psp
from shop.catalogue.models import Sale
from shop.conftest import ann, bob, fake_provider, sale
from shop.payments.provider import provider

__all__ = ["ann", "bob", "fake_provider", "sale", "sale_of", "stock"]


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


@pytest.fixture(scope="session")
def _running_psp() -> Iterator[Psp]:
    with running_psp() as psp:
        yield psp


@pytest.fixture
def psp(_running_psp: Psp, settings: Any) -> Iterator[Psp]:
    """The payment provider, without faults, in the shop's settings.

    It sends webhooks only after ``psp.behave(webhook_url=…)``.
    """
    settings.PSP_URL, settings.PSP_KEY = _running_psp.url, KEY
    settings.PSP_WEBHOOK_SECRET = SECRET
    settings.PAYMENT_PROVIDER = "shop.payments.http_provider.HttpProvider"
    provider.cache_clear()
    yield _running_psp
    _running_psp.forget()
