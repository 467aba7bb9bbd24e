"""The payment provider of a development machine."""

from __future__ import annotations

from uuid import uuid4

import pytest

from development.provider import SaysYes
from shop import payments
from shop.checkout import buy
from shop.conftest import ann, fake_provider, sale, sale_of
from shop.orders.models import Order
from shop.payments.models import Payment
from shop.payments.provider import provider

__all__ = ["ann", "fake_provider", "sale", "sale_of"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def says_yes(settings):
    settings.PAYMENT_PROVIDER = "development.provider.SaysYes"
    provider.cache_clear()
    yield
    provider.cache_clear()


def test_an_order_is_paid_and_refunded_at_once(sale, ann):
    order = Order.objects.get(pk=buy(sale.pk, ann.user.pk, uuid4(), 2).order.pk)
    payments.pay(order)
    payment = Payment.objects.get(order=order)
    assert payment.state == Payment.State.CAPTURED
    [known] = SaysYes().find(order.pk)
    assert (known.id, known.order, known.amount) == (payment.intent, order.pk, order.amount)
    payments.refund(order, None)
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("refunded", payment.amount)


def test_a_process_knows_what_another_one_has_agreed_to():
    intent = SaysYes().create_intent(order=7, amount=999, currency="EUR", key="a:b")
    captured = SaysYes().capture(intent.id, key="c")
    assert (captured.order, captured.amount, captured.currency) == (7, 999, "EUR")
    assert captured.status == "captured"
    assert SaysYes().find(7) == []
