"""Fixtures of the payment tests."""

import pytest

from shop.catalogue.models import Sale
from shop.tests.catalogue import a_sale


@pytest.fixture
def sale() -> Sale:
    """Ten units at 999.00 CNY, three per buyer."""
    return a_sale(limit=3)
