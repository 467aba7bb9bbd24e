"""The payment provider's webhooks: repeated, late, out of order or forged."""

import hashlib
import hmac
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client

from inventory import outbox
from inventory.models import OutboxMessage
from shop.payments import settlement, webhooks
from shop.payments.http_provider import HttpProvider
from shop.payments.models import WebhookEvent
from shop.payments.settlement import NotYet
from shop.tests.processes import wait_for

PATH = "/api/v1/webhooks/psp"
SECRET = "whsec_of_this_test"

shop = HttpProvider()


@pytest.fixture
def done(monkeypatch, transactional_db):
    """Each effect leaves a row in its transaction; return a function that counts them."""

    def leave_a_row(status):
        return lambda event: outbox.emit(status, {"about": event.id})

    monkeypatch.setattr(settlement, "record_capture", leave_a_row("captured"))
    monkeypatch.setattr(settlement, "record_failure", leave_a_row("failed"))
    monkeypatch.setattr(settlement, "record_refund_outcome", leave_a_row("refunded"))

    def counted() -> Counter[tuple[str, str]]:
        rows = OutboxMessage.objects.values_list("topic", "payload__about")
        return Counter((topic, str(about)) for topic, about in rows)

    return counted


@pytest.fixture
def address(live_server):
    """The shop's webhook address."""
    return f"{live_server.url}{PATH}"


def captured(order: int) -> str:
    intent = shop.create_intent(order=order, amount=1000, currency="CNY", key=str(uuid4()))
    shop.capture(intent.id, key=str(uuid4()))
    return intent.id


def event(pk: str, kind: str = "payment_intent.captured") -> bytes:
    data = {"id": "pi_1", "order": 1, "amount": 1000, "currency": "CNY", "status": "captured"}
    return json.dumps({"id": pk, "type": kind, "data": data}).encode()


def post(body: bytes, signature: str) -> int:
    headers = {"PSP-Signature": signature}
    with closing(connection):  # also in a test's thread
        answer = Client().post(PATH, body, content_type="application/json", headers=headers)
    return answer.status_code


def signed(body: bytes, *, ago: float = 0, secret: str = SECRET) -> str:
    """Sign as documented, without the provider's code."""
    at = str(int(time.time() - ago))
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def test_webhook_sent_twice_has_its_effect_once(psp, address, done):
    psp.behave(webhook_url=address, copies=2, shuffle=400)
    intents = [captured(order) for order in range(200, 210)]
    refunds = [shop.refund(intent, amount=1000, key=str(uuid4())).id for intent in intents]
    wait_for(psp.quiet)
    assert done() == Counter(
        [
            *(("captured", intent) for intent in intents),
            *(("refunded", refund) for refund in refunds),
        ]
    )
    [(attempts,)] = psp.sql("SELECT sum(attempts) FROM event WHERE body LIKE ?", f"%{intents[0]}%")
    assert attempts >= 2


def test_webhook_without_its_row_would_have_its_effect_twice(psp, address, done, monkeypatch):
    """The control of the test above."""
    monkeypatch.setattr(webhooks, "_remember", lambda *_: True)
    psp.behave(webhook_url=address, copies=2)
    intent = captured(210)
    wait_for(psp.quiet)
    assert done()["captured", intent] >= 2


def test_webhook_of_an_unknown_payment_is_sent_again(psp, address, done, monkeypatch):
    psp.behave(webhook_url=address)
    record, received = settlement.record_capture, []

    def unknown_at_first(intent):
        received.append(intent.id)
        record(intent)
        if len(received) < 3:
            raise NotYet(intent.id)

    monkeypatch.setattr(settlement, "record_capture", unknown_at_first)
    intent = captured(211)
    wait_for(psp.quiet)
    assert received == [intent] * 3
    assert done() == {("captured", intent): 1}


def test_webhook_sender_killed_before_sending_loses_nothing(psp, address, done):
    psp.behave(webhook_url=address, shuffle=2000)  # time to kill it
    intents = [captured(order) for order in range(220, 225)]
    psp.kill()
    assert [psp.ledger(order) != [] for order in range(220, 225)] == [True] * 5
    wait_for(psp.quiet)
    assert done() == Counter(("captured", intent) for intent in intents)


def test_webhook_reports_a_capture_that_fails_later(psp, address, done):
    psp.behave(webhook_url=address, processing=50, decline=1.0)
    intent = captured(226)
    wait_for(psp.quiet)
    wait_for(lambda: done() == {("failed", intent): 1})


def test_thirty_copies_at_once_have_one_effect(done, settings):
    settings.PSP_WEBHOOK_SECRET = SECRET
    body = event("evt_30")
    signature = signed(body, ago=290)
    with ThreadPoolExecutor(30) as threads:
        assert set(threads.map(post, [body] * 30, [signature] * 30)) == {200}
    assert done() == {("captured", "pi_1"): 1}


FORGED = {
    "other secret": lambda body: signed(body, secret="a guess"),
    "other body": lambda body: signed(body + b" "),
    "old": lambda body: signed(body, ago=310),
    "from the future": lambda body: signed(body, ago=-310),
    "none": lambda body: "",
    "other time": lambda body: signed(body).replace("t=", "t=1"),
    "nonsense": lambda body: "t=1,v1=é",
}
"""Signatures that are refused."""
NOT_UNDERSTOOD = [b"[]", b"{}", b"x", b'{"id": 1, "type": "refund.failed", "data": 1}']
HELD_BY_NO_TABLE = {
    "NUL in id": event("evt\0"),
    "long id": event("e" * 101),
    "NUL in type": event("evt_1", "payout\0paid"),
    "long type": event("evt_1", "p" * 61),
    "NUL in a payment's id": event("evt_1").replace(b"pi_1", rb"pi\u0000"),
}


@pytest.mark.parametrize(
    ("body", "sign", "status"),
    [
        *(pytest.param(event("evt_1"), sign, 401, id=name) for name, sign in FORGED.items()),
        *((body, signed, 422) for body in NOT_UNDERSTOOD),
        *(pytest.param(body, signed, 400, id=name) for name, body in HELD_BY_NO_TABLE.items()),
    ],
)
def test_webhook_that_is_forged_is_refused_and_not_stored(done, settings, body, sign, status):
    settings.PSP_WEBHOOK_SECRET = SECRET
    assert post(body, sign(body)) == status
    assert not WebhookEvent.objects.exists()
    assert not done()
