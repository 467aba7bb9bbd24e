"""Parts of an order: worth what they cost, under the rule of their own change, each by its key."""

from __future__ import annotations

from uuid import uuid4

import pytest

from inventory.tests.helpers import book
from shop import orders, payments
from shop.catalogue.models import Sale
from shop.checkout.purchase import Wanted, check_out
from shop.orders import Part
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale
from shop.tests.money import come_to_rest, deliver, make_due

pytestmark = pytest.mark.django_db(transaction=True)

PRICE = 1_250


@pytest.fixture
def sale() -> Sale:
    """Ten units, five for each buyer."""
    return a_sale(limit=5, price=PRICE)


def a_cart(*sales: Sale) -> Order:
    """An unpaid order of two units of each sale."""
    bought = check_out(a_buyer().pk, uuid4(), [Wanted(sale.pk, 2) for sale in sales])
    return Order.objects.get(pk=bought.order.pk)


def test_a_cart_that_is_paid_late_takes_no_line_again_that_was_cancelled(sale, fake_provider):
    other = a_sale(limit=5)
    mine = a_cart(sale, other)
    orders.cancel(mine, Part(2, uuid4(), other.pk))
    fake_provider.slow = True
    payments.pay(mine)
    make_due(mine)
    orders.expire()
    deliver(fake_provider)
    come_to_rest(fake_provider)
    assert Order.objects.get(pk=mine.pk).status == "paid"
    assert (book(sale.item_id).confirmed, book(other.item_id).confirmed) == (2, 0)
    assert fake_provider.refunds[mine.pk] == []
