"""The adapter of WeChat Pay against a small fake: by the fake's own books, and by our audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from shop import orders, payments
from shop.catalogue.models import Sale
from shop.orders.models import Order
from shop.payments.models import Refund
from shop.payments.provider import PaymentDeclined, PaymentUnknown, provider
from shop.payments.wechat import WeChat
from shop.tests import fake_wechat
from shop.tests.catalogue import a_sale, an_order
from shop.tests.fake_wechat import FakeWeChat
from shop.tests.money import begin_to_pay, make_due, must_agree, receive_webhook, status, sweep

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def running_books() -> Iterator[FakeWeChat]:
    with fake_wechat.running() as running:
        yield running


@pytest.fixture(autouse=True)
def books(running_books: FakeWeChat, settings: Any) -> Iterator[FakeWeChat]:
    """The books of the shop's payment provider, WeChat Pay."""
    settings.PAYMENT_PROVIDER = "shop.payments.wechat.WeChat"
    for name, value in running_books.settings().items():
        setattr(settings, name, value)
    provider.cache_clear()
    yield running_books
    running_books.lose = False
    provider.cache_clear()


@pytest.fixture
def sale() -> Sale:
    return a_sale(limit=3)


def hear(books: FakeWeChat, number: str) -> int:
    """Deliver the notification that an order was paid."""
    return receive_webhook(*books.report("TRANSACTION.SUCCESS", books.orders[number]))


def pay(books: FakeWeChat, sale: Sale) -> tuple[Order, str]:
    """Pay an order; return it, and the number of its payment."""
    order, number = begin_to_pay(sale)
    books.scan(number)
    assert hear(books, number) == 200
    assert status(order) == "paid"
    return order, number


def test_scanned_code_pays_the_order_once(books, sale):
    order, number = begin_to_pay(sale)
    action = payments.progress(order).action
    assert action is not None
    assert (action["kind"], action["data"]) == (
        "qr",
        f"weixin://wxpay/bizpayurl?pr={number[:8]}",
    )
    books.scan(number)
    for _ in range(2):
        assert hear(books, number) == 200
    assert status(order) == "paid"
    must_agree(books, number)


def test_code_stays_the_same_while_it_is_not_paid(books, sale):
    order, _ = begin_to_pay(sale)
    first = payments.progress(order).action
    payments.pay(order)
    sweep()
    assert payments.progress(order).action == first


def test_scanned_code_is_found_without_a_notification(books, sale):
    order, number = begin_to_pay(sale)
    books.scan(number)
    sweep()
    assert status(order) == "paid"
    must_agree(books, number)


def test_walking_away_closes_the_code(books, sale):
    order, number = begin_to_pay(sale)
    make_due(order)
    orders.expire()
    sweep()
    assert (status(order), books.orders[number]["trade_state"]) == ("expired", "CLOSED")
    must_agree(books, number)


def test_code_that_is_scanned_after_the_expiry_is_refunded(books, sale):
    order, number = begin_to_pay(sale)
    make_due(order)
    orders.expire()
    books.scan(number)
    sweep()  # cannot close it any more
    sweep()
    assert (status(order), books.kept(number)) == ("expired", 0)
    assert hear(books, number) == 200
    must_agree(books, number)


def test_lost_answer_gets_the_same_code_again(books, sale):
    order = an_order(sale)
    books.lose = True
    with pytest.raises(PaymentUnknown):
        payments.pay(order)
    known = len(books.orders)
    payments.pay(order)
    assert len(books.orders) == known
    assert payments.progress(order).state == "action"


def test_refund_whose_answer_is_lost_is_given_once(books, sale):
    order, number = pay(books, sale)
    refunds = len(books.refunds)
    real = books._refund

    def lose_answer(asked: dict[str, Any]) -> Any:
        books.lose = True
        return real(asked)

    books._refund = lose_answer
    with pytest.raises(PaymentUnknown):
        payments.refund(order)
    books._refund = real
    sweep()
    assert status(order) == "refunded"
    assert len(books.refunds) == refunds + 1
    must_agree(books, number)


def test_refund_that_fails_later_is_open_again(books, sale):
    order, number = pay(books, sale)
    payments.refund(order)
    refund = books.refunds[Refund.objects.get(payment__order=order).number]
    refund["status"] = "ABNORMAL"
    event = {**refund, "refund_status": "ABNORMAL"}
    assert receive_webhook(*books.report("REFUND.ABNORMAL", event)) == 200
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("refund_pending", 0)
    assert books.kept(number) == order.amount


def test_refund_of_more_than_there_is_is_declined(books, sale):
    _, number = pay(books, sale)
    with pytest.raises(PaymentDeclined, match="NOT_ENOUGH"):
        WeChat().refund(number, amount=10**9, key="too-much")


def test_notification_that_is_not_of_wechat_is_refused(books, sale):
    order, number = begin_to_pay(sale)
    body, headers = books.report("TRANSACTION.SUCCESS", books.orders[number])
    forged = {**headers, "Wechatpay-Signature": "AAAA"}
    other = {**headers, "Wechatpay-Serial": "1234"}
    old = books.signature(body.decode(), ago=400)
    for wrong in (forged, other, old, {}):
        assert receive_webhook(body, wrong) == 401
    assert receive_webhook(body + b" ", headers) == 401
    assert status(order) == "awaiting_payment"


def test_wechat_declines_another_currency_before_the_call():
    with pytest.raises(PaymentDeclined, match="currency"):
        WeChat().create_intent(order=1, amount=100, currency="EUR", key="a")


def test_answer_that_cannot_be_read_says_nothing_about_money(books, sale, monkeypatch):
    order, number = begin_to_pay(sale)
    monkeypatch.setitem(books.orders, number, {"trade_state": "SUCCESS"})
    with pytest.raises(PaymentUnknown):
        WeChat().get(number)
    assert status(order) == "awaiting_payment"


def test_wrong_key_of_ours_says_nothing_about_money(settings, books):
    settings.WECHAT_PRIVATE_KEY = FakeWeChat().settings()["WECHAT_PRIVATE_KEY"]
    with pytest.raises(PaymentUnknown):
        WeChat().create_intent(order=1, amount=100, currency="CNY", key="a")


def test_payment_page_shows_the_code(sale, ann):
    client = Client()
    client.force_login(ann.user)
    order = ann.order(sale)
    page = client.post(f"/orders/{order}/payment/", follow=True).content.decode()
    assert "<svg" in page
    assert "data-waiting" in page
