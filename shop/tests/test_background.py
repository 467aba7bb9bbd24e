"""Unpaid orders expire once; follow-up and mails come once, also without a broker."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from django.core.mail import EmailMultiAlternatives
from django.db import OperationalError, connection, transaction
from django.db.models import F

from development.servers import free_port
from inventory import outbox, services
from inventory.models import Item, OutboxMessage, Reservation
from inventory.tests.helpers import on_this_thread
from locking.tests.helpers import eventually
from shop import orders
from shop.background import expiry, follow_up, tasks
from shop.background.notify import Notifier
from shop.catalogue.models import Product
from shop.celery import app
from shop.checkout import Limiter
from shop.mails import rendering, sending
from shop.mails.rendering import Kind, message
from shop.orders.models import Order
from shop.redis import client
from shop.tests.catalogue import a_sale, an_order, sent

pytestmark = pytest.mark.django_db(transaction=True)


LONG = timedelta(minutes=15)

CLAIMED = "queue:{orders}:in-flight"
"""Where the delay queue keeps the orders that a consumer has popped, in Redis."""


@pytest.fixture(autouse=True)
def empty_queue():
    client().delete("queue:{orders}", CLAIMED)


@pytest.fixture
def order() -> Order:
    return an_order(a_sale())


def available(order: Order) -> int:
    return Item.objects.get(pk=order.lines.get().sale.item_id).available


def status(order: Order) -> str:
    return Order.objects.get(pk=order.pk).status


def waiting() -> int:
    return len(expiry.queue()) + int(expiry.queue().in_flight())


def move_deadlines(by: timedelta) -> None:
    """Move the deadlines in the database only, not in the queue."""
    Order.objects.update(pay_before=F("pay_before") + by)
    Reservation.objects.update(deadline=F("deadline") + by)


def make_due(*ids: object) -> None:
    expiry.queue().enqueue([str(one) for one in ids], -1, reschedule=True)


def test_orders_popped_by_a_crashed_consumer_return_to_the_queue(order):
    move_deadlines(-LONG)
    make_due(order.pk)
    assert len(expiry.queue().pop()) == 1  # then the consumer dies
    assert expiry.expire_due() == 0
    client().zadd(CLAIMED, {str(order.pk): 0})  # its claim ends
    assert expiry.expire_due() == 1
    assert (status(order), waiting()) == ("expired", 0)


def test_order_stays_queued_until_its_expiry_is_committed(order, monkeypatch):
    move_deadlines(-LONG)
    make_due(order.pk)

    def fail(_):
        raise OperationalError

    monkeypatch.setattr(orders, "expire_those", fail)
    with pytest.raises(OperationalError):
        expiry.expire_due()
    assert waiting() == 1


@pytest.mark.parametrize("expire", [expiry.expire_due, orders.expire])
def test_expiry_of_one_order_that_fails_does_not_block_others(expire, caplog):
    sale = a_sale()
    several = [an_order(sale) for _ in range(5)]
    move_deadlines(-LONG)
    make_due(*[order.pk for order in several])
    # A contradiction, which nobody resolves by himself: it is paid, and its unit is only held.
    Order.objects.filter(pk=several[2].pk).update(status="paid")
    assert expire() == 4
    assert "could not be expired" in caplog.text
    assert Order.objects.filter(status="expired").count() == 4
    if expire is expiry.expire_due:
        assert waiting() == 0


def test_expiry_of_a_backlog_makes_room_for_other_tasks(monkeypatch):
    """After a large sale with few payments, all orders are due at once; follow-ups do not wait."""
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    monkeypatch.setattr(services, "due", partial(services.due, 1))
    monkeypatch.setattr(tasks, "SLICE", 0)
    asked: list[str] = []
    monkeypatch.setattr(tasks, "ask_for", lambda task: asked.append(task.name))
    sale = a_sale()
    several = [an_order(sale) for _ in range(6)]
    move_deadlines(-LONG)
    make_due(*[order.pk for order in several])
    assert [tasks.expire_due(), tasks.expire_due(), tasks.expire_orders()] == [1, 1, 1]
    assert asked == ["shop.expire_due"] * 2 + ["shop.expire_orders"], "each continues as a new task"
    assert orders.expire() == 3, "one after the other, until none is due"
    assert (tasks.expire_orders(), available(several[0])) == (0, 10)


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


def test_mail_is_not_repeated_after_a_slow_mail_server(order, mailoutbox, monkeypatch):
    message = rendering.message

    def slowly(*about, **more):
        time.sleep(0.5)
        return message(*about, **more)

    monkeypatch.setattr(rendering, "message", slowly)
    follow_up.deliver()
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '100ms'")
        try:
            assert sending.send_mails() == 1
        finally:
            cursor.execute("RESET idle_in_transaction_session_timeout")
    assert len(mailoutbox) == 1


def test_order_without_a_broker_is_followed_up_by_the_sweep(no_broker, order, caplog):
    notifier = Notifier()
    notifier.begin()
    notifier.bell.set()
    eventually(lambda: "the broker does not answer" in caplog.text)
    assert outbox.pending() == 1
    follow_up.follow_up()  # the sweep runs this when a worker has its broker again
    assert outbox.pending() == 0
    assert sent(order)


def test_confirmation_skips_a_cancelled_order_of_its_batch(settings):
    settings.PAYMENT_PROVIDER = ""
    sale = a_sale()
    batch = [an_order(sale) for _ in range(3)]
    orders.cancel(batch[0])
    OutboxMessage.objects.filter(topic=orders.OPENED).delete()
    with transaction.atomic():
        outbox.emit(orders.OPENED, {"orders": [each.pk for each in batch]})
    follow_up.deliver()
    assert [status(each) for each in batch] == ["cancelled", "paid", "paid"]


def test_limiter_lets_a_buyer_ask_again_after_a_while(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limiter = Limiter(rate=2)
    assert [limiter.allows(1) for _ in range(5)] == [True] * 4 + [False]
    now += 0.5
    assert [limiter.allows(1) for _ in range(2)] == [True, False]
    now += 3600
    assert [limiter.allows(1) for _ in range(5)] == [True] * 4 + [False]


def test_mail_that_a_worker_is_sending_is_not_sent_by_another(order, mailoutbox, monkeypatch):
    follow_up.deliver()
    send = sending._send

    def send_while_another_looks(*arguments):
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(on_this_thread, sending.send_mails).result() == 0
        return send(*arguments)

    monkeypatch.setattr(sending, "_send", send_while_another_looks)
    assert sending.send_mails() == 1
    assert len(mailoutbox) == 1


def html_of(mail: EmailMultiAlternatives) -> str:
    [(html, _)] = mail.alternatives
    return str(html)


def test_mail_escapes_a_products_name_in_header_and_body(order):
    Product.objects.update(name="Phone\r\nBcc: all@shop.example <script>")
    sent = message(Kind.CONFIRMATION, order)
    assert "\n" not in sent.subject
    assert sent.message()["Bcc"] is None
    assert "<script>" not in html_of(sent)


def test_mail_without_a_public_url_has_no_link(order, settings):
    settings.PUBLIC_URL = ""
    written = message(Kind.CONFIRMATION, order)
    assert "http" not in written.body
    assert "<a " not in html_of(written)
