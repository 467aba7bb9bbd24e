"""The follow-up of orders, with a broker, without one, and after its return."""

import time
from uuid import uuid4

import pytest
from django.db import connection

from inventory import outbox
from locking.tests.servers import free_port
from shop.background import follow_up
from shop.background.notify import Notifier
from shop.catalogue.sales import open_sale
from shop.celery import app
from shop.checkout.purchase import Limiter, buy
from shop.mails import rendering, sending
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer
from shop.tests.mails import sent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def order() -> Order:
    sale = open_sale(stock=5, price=99_900, limit=2)
    return Order.objects.get(pk=buy(sale.pk, a_buyer().pk, uuid4(), 1).order.pk)


@pytest.fixture
def no_broker():
    """Point Celery's publisher at a closed port inside the test."""
    address = app.conf.broker_url
    _publish_to(f"redis://127.0.0.1:{free_port()}/0")
    yield
    _publish_to(address)


def _publish_to(address: str) -> None:
    app.conf.broker_url = app.conf.broker_write_url = address
    app._pool = app.amqp._producer_pool = None


def test_a_slow_mail_server_does_not_end_the_transaction_and_repeat_the_mail(
    order, mailoutbox, monkeypatch
):
    message = rendering.message

    def slowly(*about):
        time.sleep(0.5)
        return message(*about)

    monkeypatch.setattr(rendering, "message", slowly)
    follow_up.deliver()
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '100ms'")
        try:
            assert sending.send_mails() == 1
        finally:
            cursor.execute("RESET idle_in_transaction_session_timeout")
    assert len(mailoutbox) == 1


def test_without_the_broker_an_order_is_taken_and_the_sweep_follows_it_up(no_broker, order, caplog):
    Notifier()._send_once()
    assert "the broker does not answer" in caplog.text
    assert outbox.pending() == 1
    follow_up.follow_up()  # the sweep runs this when a worker has its broker again
    assert outbox.pending() == 0
    assert sent(order)


def test_a_buyer_over_the_rate_may_ask_again_when_time_has_passed(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limiter = Limiter(rate=2)
    assert [limiter.allows(1) for _ in range(5)] == [True] * 4 + [False]
    now += 0.5
    assert [limiter.allows(1) for _ in range(2)] == [True, False]
    now += 3600
    assert [limiter.allows(1) for _ in range(5)] == [True] * 4 + [False]
