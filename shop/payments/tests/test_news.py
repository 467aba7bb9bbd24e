"""Each kind of signed news changes what it is about."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import asdict, replace

import pytest

from shop import payments
from shop.payments import webhooks
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "whsec_test"


def tell(kind: str, data: object, pk: str = "evt_1") -> None:
    """Send signed news, as the provider does."""
    body = json.dumps({"id": pk, "type": kind, "data": data}).encode()
    now = str(int(time.time()))
    signed = hmac.new(SECRET.encode(), now.encode() + b"." + body, hashlib.sha256)
    webhooks.receive(body, f"t={now},v1={signed.hexdigest()}")


def test_two_events_about_the_same_refund_count_once(fake_provider, settings):
    settings.PSP_WEBHOOK_SECRET = SECRET
    mine = payments.pay(an_order(a_sale()))
    fake_provider.slow = True
    payments.refund(mine)
    [refund] = fake_provider.on_the_way.values()
    for pk in ("evt_1", "evt_2"):
        tell("refund.succeeded", asdict(replace(refund, status="succeeded")), pk)
    mine.refresh_from_db()
    assert (mine.status, mine.refunded) == ("refunded", mine.amount)
