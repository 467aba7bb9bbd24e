"""The sweep of payments: each is asked about in its turn, and none keeps the others waiting."""

from __future__ import annotations

import pytest
from django.db.models.functions import Now

from shop import orders, payments
from shop.orders import WrongState
from shop.orders.models import Order
from shop.payments import paying, recovery
from shop.payments.models import Payment
from shop.payments.provider import PaymentUnknown
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import make_due
from shop.tests.provider import lost

pytestmark = pytest.mark.django_db(transaction=True)


def two_without_an_answer(fake_provider) -> list[Order]:
    sale = a_sale()
    both = [an_order(sale), an_order(sale)]
    fake_provider.before = lost("capture", "capture")
    for order in both:
        with pytest.raises(PaymentUnknown):
            payments.pay(order)
    Payment.objects.update(not_before=Now())
    return both


def test_a_payment_that_cannot_be_settled_keeps_no_other_from_being(
    fake_provider, monkeypatch, caplog
):
    bad, good = two_without_an_answer(fake_provider)
    advance = paying.advance

    def fail_for_one(payment: Payment) -> None:
        if payment.order_id == bad.pk:
            raise ZeroDivisionError
        advance(payment)

    monkeypatch.setattr(paying, "advance", fail_for_one)
    recovery.settle()
    assert "could not be settled" in caplog.text
    states = dict(Order.objects.values_list("pk", "status"))
    assert (states[bad.pk], states[good.pk]) == ("awaiting_payment", "paid")


def test_a_provider_that_does_not_answer_is_asked_once_about_each_payment(fake_provider):
    two_without_an_answer(fake_provider)

    def silent(call: str) -> None:
        asked.append(call)
        raise PaymentUnknown(call)

    asked: list[str] = []
    fake_provider.before = silent
    assert recovery.settle() == 2
    assert len(asked) == 2
    assert recovery.settle() == 0


def test_a_capture_that_came_first_under_another_key_is_this_ones_answer(fake_provider):
    mine = an_order(a_sale())

    def another_first(call: str) -> None:
        if call == "capture":
            fake_provider.before = lambda call: None
            [intent] = fake_provider.intents
            fake_provider.capture(intent, key="another")

    fake_provider.before = another_first
    assert payments.pay(mine).status == "paid"
    assert fake_provider.captures[mine.pk] == [mine.amount]
    assert Payment.objects.get(order=mine).state == Payment.State.CAPTURED


def test_who_pays_while_the_order_ends_is_told_so(fake_provider):
    sale = a_sale(stock=1)
    mine = an_order(sale)

    def end_first(call: str) -> None:
        if call == "capture":
            fake_provider.before = lambda call: None
            make_due(mine)
            orders.expire()
            an_order(sale)

    fake_provider.before = end_first
    with pytest.raises(WrongState, match="expired"):
        payments.pay(mine)
    assert fake_provider.captures[mine.pk] == [mine.amount]
