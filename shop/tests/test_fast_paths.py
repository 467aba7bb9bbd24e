"""What must happen at once happens without the sweep, which would hide a lost fast path."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from inventory import outbox
from inventory.hooks import hooks
from inventory.models import OutboxMessage
from locking.queue import DelayQueue
from shop import orders, payments
from shop.background import expiry, follow_up, tasks
from shop.background.notify import notifier
from shop.catalogue.sales import database_time
from shop.mails.rendering import OCCASIONS
from shop.mails.sending import QUEUE, topic
from shop.orders.models import Order, OrderEvent
from shop.payments import http_provider, settlement, webhooks
from shop.payments.models import Payment, Refund
from shop.payments.provider import NotFromProvider
from shop.redis import client
from shop.tests.catalogue import a_sale, an_order, mails
from shop.tests.money import make_due, paid

pytestmark = pytest.mark.django_db(transaction=True)

Status = Order.Status


@pytest.fixture(autouse=True)
def empty_queue() -> None:
    client().delete("queue:{orders}", "queue:{orders}:in-flight")


def send(kind: str, data: dict[str, Any], *, ahead: float = 0) -> None:
    """Let the provider report an event, signed so many seconds in the future."""
    body = json.dumps({"id": uuid4().hex, "type": kind, "data": data}).encode()
    seconds = str(int(database_time().timestamp() + ahead))
    signed = f"{seconds}.".encode() + body
    secret = settings.PSP_WEBHOOK_SECRET.encode()
    signature = hmac.new(secret, signed, hashlib.sha256).hexdigest()
    webhooks.receive(body, {"PSP-Signature": f"t={seconds},v1={signature}"})


def intent(payment: Payment, status: str) -> dict[str, Any]:
    return {
        "id": payment.intent,
        "order": payment.order_id,
        "amount": payment.amount,
        "currency": payment.order.currency,
        "status": status,
        "reference": payment.key,
    }


def pending(fake_provider: Any) -> Payment:
    fake_provider.slow = True
    order = an_order(a_sale())
    payments.pay(order)
    return Payment.objects.get(order=order)


@pytest.mark.parametrize(
    ("kind", "state", "status"),
    [
        ("captured", "captured", Status.PAID),
        ("failed", "failed", Status.AWAITING_PAYMENT),
        ("cancelled", "failed", Status.AWAITING_PAYMENT),
    ],
)
def test_payment_event_settles_it_without_sweep(kind, state, status, fake_provider):
    payment = pending(fake_provider)
    send(f"payment_intent.{kind}", intent(payment, kind))
    payment.refresh_from_db()
    assert (payment.state, Order.objects.get().status) == (state, status)


@pytest.mark.parametrize(("kind", "state"), [("succeeded", "done"), ("failed", "failed")])
def test_refund_event_settles_it_without_sweep(kind, state, fake_provider):
    order = paid(a_sale())
    fake_provider.slow = True
    payments.refund(order)
    refund = Refund.objects.get()
    sent = {"id": refund.number, "amount": refund.amount, "status": kind}
    send(f"refund.{kind}", {**sent, "intent": refund.payment.intent})
    refund.refresh_from_db()
    assert refund.state == state


@pytest.mark.parametrize("kind", ["created", "updated", "closed"])
def test_dispute_event_is_noted(kind):
    order = paid(a_sale())
    payment = Payment.objects.get()
    status = "lost" if kind == "closed" else "open"
    dispute = {"id": "dp_1", "intent": payment.intent, "amount": payment.amount, "status": status}
    send(f"dispute.{kind}", dispute)
    assert order.events.filter(kind=OrderEvent.Kind.DISPUTED).exists()


@pytest.mark.parametrize("ahead", [-1, 1])
def test_webhook_signed_too_long_ago_or_ahead_is_refused(ahead):
    with pytest.raises(NotFromProvider):
        send("unknown", {}, ahead=ahead * (http_provider.TOLERANCE + 60))


def test_refund_of_a_late_payment_is_due_at_once(fake_provider):
    payment = pending(fake_provider)
    orders.cancel(payment.order)
    send("payment_intent.captured", intent(payment, "captured"))
    assert Refund.objects.get().not_before <= database_time()


def test_refund_of_a_request_is_left_to_it_at_first(fake_provider):
    order = paid(a_sale())
    fake_provider.slow = True
    before = database_time()
    payments.refund(order)
    assert Refund.objects.get().not_before >= before + settlement.REQUEST


def test_opened_order_enters_the_delay_queue():
    an_order(a_sale())
    follow_up.deliver()
    assert len(expiry.queue()) == 1


@pytest.mark.parametrize("end", [payments.pay, orders.cancel])
def test_settled_order_leaves_the_delay_queue(end):
    order = an_order(a_sale())
    follow_up.deliver()
    end(order)
    follow_up.deliver()
    assert len(expiry.queue()) == 0


def test_settled_order_stays_in_the_delay_queue_until_the_commit():
    order = an_order(a_sale())
    follow_up.deliver()
    with transaction.atomic():
        expiry.leave([order.pk])
        assert len(expiry.queue()) == 1
    assert len(expiry.queue()) == 0


def test_early_order_enters_again_before_it_is_acknowledged(monkeypatch):
    order = an_order(a_sale())
    called: list[str] = []

    def record(name, call):
        def recorded(self, *arguments, **named):
            called.append(name)
            return call(self, *arguments, **named)

        monkeypatch.setattr(DelayQueue, name, recorded)

    for name in ("enqueue", "acknowledge"):
        record(name, getattr(DelayQueue, name))
    expiry.queue().enqueue([str(order.pk)], -1, reschedule=True)
    called.clear()
    assert expiry.expire_due() == 0
    assert called == ["enqueue", "acknowledge"]


def test_retried_message_has_all_its_attempts_again():
    with transaction.atomic():
        outbox.emit_once("numbers", {"1": 1})
    OutboxMessage.objects.update(attempts=9, dead=Now(), not_before=Now() + timedelta(hours=1))
    assert outbox.retry(OutboxMessage.objects.all()) == 1
    message = OutboxMessage.objects.get()
    assert (message.attempts, message.dead) == (0, None)
    assert outbox.deliver({"numbers": lambda payload: None}) == 1


def test_purchase_notifies_celery():
    assert hooks.written == notifier.bell.set


@pytest.fixture
def asked(monkeypatch):
    names: list[str] = []
    monkeypatch.setattr(tasks, "ask_for", lambda task: names.append(task.name))
    return names


def test_follow_up_task_asks_for_the_mails_that_are_due(asked):
    an_order(a_sale())
    tasks.follow_up()
    assert "shop.send_mails" in asked


def test_task_with_a_backlog_continues_as_a_new_task(asked, monkeypatch):
    monkeypatch.setattr(tasks, "SLICE", 0)
    sale = a_sale()
    for _ in range(2):
        an_order(sale)
    tasks.follow_up()
    tasks.send_mails()
    assert asked.count("shop.follow_up") == 1
    assert asked.count("shop.send_mails") == 2


@pytest.mark.parametrize("kind", OrderEvent.Kind)
def test_event_enqueues_the_mail_that_the_order_page_shows(kind):
    order = an_order(a_sale())
    OutboxMessage.objects.all().delete()
    with transaction.atomic():
        outbox.emit_once(orders.topic(kind), {str(order.pk): {"orders": [order.pk]}})
    follow_up.deliver()
    expected = [topic(OCCASIONS[kind])] if kind in OCCASIONS else []
    assert list(mails(order).values_list("topic", flat=True)) == expected


def test_outbox_delivers_the_oldest_message_first():
    handled: list[int] = []
    with transaction.atomic():
        outbox.emit_once("numbers", {str(number): number for number in (1, 2, 3)}, queue=QUEUE)
    OutboxMessage.objects.filter(key="3").update(not_before=Now() - timedelta(hours=1))
    OutboxMessage.objects.filter(key="1").update(not_before=Now() - timedelta(minutes=1))
    outbox.deliver({"numbers": handled.append}, queue=QUEUE)
    assert handled == [3, 1, 2]


def test_payment_of_an_ended_order_is_looked_at_at_once(fake_provider):
    payment = pending(fake_provider)
    make_due(payment.order)
    assert payments.recovery.settle() == 0, "it waits for the provider's event"
    orders.expire()
    assert payments.recovery.settle() == 1
