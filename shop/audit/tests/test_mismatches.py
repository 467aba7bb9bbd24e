"""Orders that contradict their reservations are found."""

from __future__ import annotations

import pytest

from shop import payments
from shop.audit.report import mismatches
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("status", ["paid", "fulfilled", "cancelled", "expired", "refunded"])
def test_units_that_are_held_fit_an_order_that_awaits_payment_only(status):
    order = an_order(a_sale())
    assert mismatches() == []
    Order.objects.filter(pk=order.pk).update(status=status)
    [told] = mismatches()
    assert told.startswith(f"order {order.pk} is {status}")


@pytest.mark.parametrize("status", ["awaiting_payment", "cancelled", "refund_pending"])
def test_units_that_are_sold_fit_a_paid_order_only(status):
    order = payments.pay(an_order(a_sale()))
    assert mismatches() == []
    Order.objects.filter(pk=order.pk).update(status=status)
    assert len(mismatches()) == 1


@pytest.mark.parametrize("wrong", ["buyer", "sale", "quantity"])
def test_an_order_for_another_buyer_sale_or_number_than_its_units_is_found(wrong):
    order = an_order(a_sale())
    if wrong == "buyer":
        Order.objects.filter(pk=order.pk).update(buyer=a_buyer())
    elif wrong == "sale":
        order.lines.update(sale=a_sale())
    else:
        order.lines.update(quantity=2)
    assert len(mismatches()) == 1
