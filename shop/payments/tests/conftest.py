"""Fixtures of the payment tests."""

from collections.abc import Iterator

import pytest

from shop.catalogue.models import Sale
from shop.tests.catalogue import a_sale
from shop.tests.money import check
from shop.tests.provider import FakeProvider


@pytest.fixture
def sale(fake_provider: FakeProvider) -> Iterator[Sale]:
    """Ten units at 999.00 CNY, three per buyer; orders and money must agree in the end."""
    made = a_sale(limit=3)
    yield made
    check(made, fake_provider)
