"""What the payment provider says: about other payments, of another amount, or against itself."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from dataclasses import asdict, replace
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from inventory.models import OutboxMessage
from shop import payments
from shop.audit import examine
from shop.background import repair as repairs
from shop.identity import identity, renew
from shop.orders.models import Order
from shop.payments import recovery, settlement
from shop.payments.models import Discrepancy, Payment, Refund
from shop.payments.provider import Dispute, LedgerLine, PaymentUnknown
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import paid, sweep
from shop.tests.provider import Crash, crash_at, lost

pytestmark = pytest.mark.django_db(transaction=True)


def send(kind: str, data: dict[str, Any], **more: Any) -> int:
    """Send a signed event; return the status of the answer."""
    body = json.dumps({"id": uuid4().hex, "type": kind, "data": data, **more}).encode()
    seconds = str(int(time.time()))
    secret = settings.PSP_WEBHOOK_SECRET.encode()
    signature = hmac.new(secret, f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    answer = Client().generic(
        "POST",
        "/api/v1/webhooks/psp",
        body,
        "application/json",
        headers={"PSP-Signature": f"t={seconds},v1={signature}"},
    )
    return answer.status_code


def kinds(order: Order) -> list[str]:
    return list(order.events.values_list("kind", flat=True))


# keys


def test_keys_differ_between_two_databases():
    order = an_order(a_sale())
    payments.pay(order)
    first = Payment.objects.get().key
    assert identity() in first
    renew()
    payments.refund(order)
    refund = Refund.objects.get()
    assert identity() in refund.key
    assert identity() not in first


def test_payment_keeps_the_key_it_began_with(fake_provider):
    order = an_order(a_sale())
    fake_provider.after = crash_at("create")
    with pytest.raises(Crash):
        payments.pay(order)
    fake_provider.after = lambda call: None
    begun = Payment.objects.get()
    # As if it was begun by a version whose keys had no identity.
    old = f"order-{order.pk}-1"
    Payment.objects.update(key=old)
    [intent] = fake_provider.intents.values()
    intent = fake_provider.intents[intent.id] = replace(intent, reference="")
    fake_provider._answers = {old: intent}
    assert begun.intent == ""
    renew()
    assert payments.pay(order).status == "paid"
    assert Payment.objects.get().key == old
    assert fake_provider.captures[order.pk] == [order.amount]


def test_refund_keeps_the_key_it_began_with(fake_provider):
    order = paid(a_sale())
    fake_provider.after = lost("refund")
    with pytest.raises(PaymentUnknown):
        payments.refund(order)
    fake_provider.after = lambda call: None
    renew()
    sweep()
    assert Refund.objects.get().state == "done"
    assert fake_provider.refunds[order.pk] == [order.amount]


# answers about something else


@pytest.mark.parametrize(
    "other",
    [{"order": 4711}, {"amount": 1}, {"currency": "EUR"}, {"reference": "order-of-another-shop"}],
)
@pytest.mark.parametrize("call", ["create_intent", "capture", "get"])
def test_payment_is_not_paid_by_an_answer_about_another(call, other, fake_provider, monkeypatch):
    real = getattr(fake_provider, call)

    def answer(*arguments: Any, **named: Any) -> Any:
        return replace(real(*arguments, **named), **other)

    monkeypatch.setattr(fake_provider, call, answer)
    order = an_order(a_sale())
    if call == "get":
        fake_provider.before = lost("capture")
        with pytest.raises(PaymentUnknown):
            payments.pay(order)
    with pytest.raises(PaymentUnknown):
        payments.pay(order)
    if call != "capture":  # of which the provider tells the truth when it is asked again
        sweep()
    order.refresh_from_db()
    assert order.status == "awaiting_payment"
    [problem] = examine().problems
    assert f"of order {order.pk}" in problem
    monkeypatch.undo()
    sweep()
    order.refresh_from_db()
    assert (order.status, len(fake_provider.captures[order.pk])) == ("paid", 1)


@pytest.mark.parametrize("other", [{"order": 4711}, {"amount": 1}, {"currency": "EUR"}])
def test_order_is_not_paid_by_an_event_about_another(other, fake_provider):
    fake_provider.slow = True
    order = an_order(a_sale())
    payments.pay(order)
    [intent] = fake_provider.intents.values()
    event = asdict(replace(intent, status="captured", **other))
    assert send("payment_intent.captured", event) == 200
    order.refresh_from_db()
    assert order.status == "awaiting_payment"
    assert len(examine().problems) == 1


@pytest.mark.parametrize("other", [{"amount": 1}, {"currency": "EUR"}, {"intent": "pi_other"}])
def test_refund_is_not_done_by_an_answer_about_another(other, fake_provider, monkeypatch):
    order = paid(a_sale())
    real = fake_provider.refund
    monkeypatch.setattr(
        fake_provider, "refund", lambda *a, **named: replace(real(*a, **named), **other)
    )
    with pytest.raises(PaymentUnknown):
        payments.refund(order)
    assert Refund.objects.get().state == "pending"
    assert len(examine().problems) == 1


# no state of money is final


def test_refund_that_fails_after_success_is_open_again(fake_provider, admin_client):
    order = paid(a_sale())
    payments.refund(order)
    refund = Refund.objects.get()
    data = {"id": refund.number, "intent": refund.payment.intent, "amount": refund.amount}
    for _ in range(2):
        assert send("refund.failed", {**data, "status": "failed"}) == 200
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("refund_pending", 0)
    assert kinds(order)[-2:] == ["refund_failed", "refund_reopened"]
    assert examine().overdue == ["1 refunds were refused by the provider"]
    # The bank has sent the money back to the provider.
    fake_provider.back.clear()
    admin_client.post(
        reverse("admin:shop_refund_changelist"),
        {"action": "retry", "_selected_action": [refund.pk]},
    )
    sweep()
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("refunded", order.amount)
    assert examine().overdue == []


def test_part_refund_that_fails_after_success_is_open_again():
    order = paid(a_sale(limit=2))
    payments.refund(order)
    Order.objects.update(status="fulfilled")  # a refund of a part, while the order keeps units
    refund = Refund.objects.get()
    data = {"id": refund.number, "intent": refund.payment.intent, "amount": refund.amount}
    assert send("refund.failed", {**data, "status": "failed"}) == 200
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("fulfilled", 0)


def test_refund_that_succeeds_after_failure_is_reported(fake_provider):
    order = paid(a_sale())
    fake_provider.slow = True
    payments.refund(order)
    refund = Refund.objects.get()
    data = {"id": refund.number, "intent": refund.payment.intent, "amount": refund.amount}
    assert send("refund.failed", {**data, "status": "failed"}) == 200
    assert send("refund.succeeded", {**data, "status": "succeeded"}) == 200
    assert any("the provider says that it succeeded" in text for text in examine().overdue)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_payment_that_fails_after_its_capture_is_reported(status, fake_provider, admin_client):
    order = paid(a_sale())
    [intent] = fake_provider.intents.values()
    for _ in range(2):
        assert send(f"payment_intent.{status}", asdict(replace(intent, status=status))) == 200
    assert kinds(order).count("payment_reversed") == 1
    [problem] = examine().problems
    assert "after it had been captured" in problem
    found = Discrepancy.objects.get()
    admin_client.post(
        reverse("admin:shop_discrepancy_changelist"),
        {"action": "close", "_selected_action": [found.pk]},
    )
    assert examine().problems == []


def test_dispute_is_reported_until_it_is_won():
    order = paid(a_sale())
    dispute = asdict(Dispute("dp_1", Payment.objects.get().intent, order.amount, "open"))
    assert send("dispute.created", dispute) == 200
    assert send("dispute.updated", {**dispute, "status": "under_review"}) == 200
    assert len(examine().overdue) == 1
    assert send("dispute.closed", {**dispute, "status": "won"}) == 200
    assert examine().overdue == []
    # A late event of its opening changes nothing; but it may be lost after all.
    assert send("dispute.created", dispute) == 200
    assert examine().overdue == []
    assert send("dispute.closed", {**dispute, "status": "lost"}) == 200
    assert len(examine().overdue) == 1
    assert kinds(order)[1:] == ["disputed", "dispute_won", "disputed"]


# events about what is not ours


STRANGE = {"id": "pi_x", "amount": 5, "currency": "EUR", "status": "captured", "order": 4711}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("payment_intent.captured", STRANGE),
        ("payment_intent.failed", {**STRANGE, "status": "failed"}),
        ("refund.succeeded", {"id": "re_x", "intent": "pi_x", "amount": 5, "status": "succeeded"}),
        ("dispute.created", {"id": "dp_x", "intent": "pi_x", "amount": 5, "status": "open"}),
    ],
)
def test_event_of_another_shop_is_acknowledged(kind, data, caplog):
    caplog.set_level(logging.WARNING)
    assert send(kind, data) == 200
    assert "pi_x" in caplog.text


def test_event_of_another_shop_is_known_by_its_reference(fake_provider):
    order = an_order(a_sale())
    fake_provider.after = crash_at("create")
    with pytest.raises(Crash):
        payments.pay(order)  # and the number is not written down
    fake_provider.after = lambda call: None
    [ours] = fake_provider.intents.values()
    event = asdict(replace(ours, status="captured"))
    assert send("payment_intent.captured", event) == 503
    assert send("payment_intent.captured", event, created=1_500_000_000) == 200
    foreign = {**event, "id": "pi_x", "reference": f"order-0123456789abcdef-{order.pk}-5f-1"}
    assert send("payment_intent.captured", foreign) == 200


def test_large_event_is_read():
    assert send("customer.updated", {"text": "x" * 1_000_000}) == 200
    assert send("customer.updated", {"text": "x" * 1_100_000}) == 413


def test_audit_leaves_another_databases_money_alone(fake_provider, monkeypatch):
    order = an_order(a_sale())
    lines = [LedgerLine(1, order.pk, "pi_1", "capture", 5, "CNY", f"order-{'0' * 16}-1-5f-1")]
    monkeypatch.setattr(type(fake_provider), "ledger", lambda self: lines)
    assert examine().problems == []
    lines[0] = replace(lines[0], reference=f"order-{identity()}-1-5f-1")
    assert len(examine().problems) == 1


# repairs


@pytest.fixture
def overlooked(fake_provider, monkeypatch):
    """Two orders whose captures the shop has overlooked, and a payment that it does not know."""
    orders = [paid(a_sale()) for _ in range(2)]
    Payment.objects.update(state="failed")
    intents = list(fake_provider.intents.values())
    strange = replace(intents[0], id="pi_strange")
    fake_provider.intents["pi_strange"] = strange
    lines = [
        LedgerLine(number, intent.order, intent.id, "capture", intent.amount, "CNY")
        for number, intent in enumerate([strange, *intents])
    ]
    monkeypatch.setattr(type(fake_provider), "ledger", lambda self: lines)
    return orders


def test_repair_goes_on_after_an_unknown_payment(overlooked):
    OutboxMessage.objects.update(dead="2020-01-01T00:00Z", attempts=20, done=None)
    list(repairs.repair())
    assert not Payment.objects.filter(state="failed").exists()
    assert not OutboxMessage.objects.filter(dead__isnull=False).exists()


def test_repair_that_fails_is_reported(overlooked, monkeypatch, capsys):
    bad, record = overlooked[0], settlement.record_capture

    def fail_for_one(intent: Any) -> None:
        if intent.order == bad.pk:
            raise ZeroDivisionError("here")
        record(intent)

    monkeypatch.setattr(settlement, "record_capture", fail_for_one)
    monkeypatch.setattr(recovery, "settle", lambda limit: 1 / 0)
    Payment.objects.filter(order=bad).update(not_before="2020-01-01T00:00Z")
    OutboxMessage.objects.update(dead="2020-01-01T00:00Z", attempts=20, done=None)
    with pytest.raises(SystemExit) as ended:
        call_command("audit", "--repair", "--json")
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    [text] = document["not_repaired"]
    assert text.startswith(f"the repair of order {bad.pk} failed: ZeroDivisionError")
    assert Payment.objects.exclude(order=bad).get().state == "captured"
    assert not OutboxMessage.objects.filter(dead__isnull=False).exists()
