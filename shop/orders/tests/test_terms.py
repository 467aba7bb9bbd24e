"""What an order costs, and for how long its units are held: as the sale says, to the unit."""

from __future__ import annotations

import pytest

from inventory.outcomes import Granted, PurchaseTicket
from inventory.selling import batch
from inventory.tests.helpers import new_purchase
from shop.orders import open_orders
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale

pytestmark = pytest.mark.django_db(transaction=True)


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
