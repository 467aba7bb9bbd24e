"""A check that nothing was written."""

from __future__ import annotations

import pytest

from inventory.models import BuyerQuota, OutboxMessage, Reservation, StockMovement
from shop.orders.models import Order


@pytest.fixture
def writes_nothing(db):
    """Fail a test that wrote something, in spite of what it asked for."""
    yield
    for table in (Reservation, Order, BuyerQuota, OutboxMessage):
        assert not table.objects.exists()
    assert not StockMovement.objects.exclude(reason="restock").exists()
