"""What an order costs, and for how long its units are held: as the sale says, to the unit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from inventory.models import Reservation
from shop.orders.models import Order
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("quantity", [1, 2, 3, 7])
def test_an_order_costs_its_price_times_its_quantity(quantity):
    order = an_order(a_sale(limit=9, price=1_999), quantity=quantity)
    assert order.amount == order.lines.get().amount == 1_999 * quantity


def test_units_are_held_until_the_time_to_pay_has_passed_and_no_longer():
    hold = timedelta(minutes=7)
    order = an_order(a_sale(hold=hold))
    order = Order.objects.get(pk=order.pk)
    held_until = Reservation.objects.get(orderline__order=order).deadline
    assert held_until == order.pay_before == order.created + hold
