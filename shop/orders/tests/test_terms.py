"""What an order costs, and for how long its units are held: as the sale says, to the unit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from inventory.models import Reservation
from inventory.outcomes import Granted, PurchaseTicket
from inventory.selling import batch
from inventory.tests.helpers import new_purchase
from shop.orders import open_orders
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order

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


def test_each_buyer_of_a_batch_gets_the_own_order():
    sale, buyers = a_sale(limit=9, price=1_999), [a_buyer() for _ in range(4)]
    tickets = [
        PurchaseTicket(new_purchase(sale.item_id, buyer.pk, quantity, scope=sale.pk, limit=9))
        for quantity, buyer in enumerate(buyers, start=1)
    ]
    batch.sell(tickets, open_orders, None)
    for quantity, (ticket, buyer) in enumerate(zip(tickets, buyers, strict=True), start=1):
        granted = ticket.answer
        assert isinstance(granted, Granted)
        order = Order.objects.get(pk=granted.opened.pk)
        assert (order.buyer, order.amount) == (buyer, 1_999 * quantity)
        assert granted.opened.amount == order.amount
        reservation = order.lines.get().reservation
        assert (reservation.pk, reservation.buyer) == (granted.reservation, buyer.pk)
        assert reservation.quantity == quantity
