"""The provider's page for a buyer: pay, be asked, be declined, or leave."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import urllib3

from shop.payments.http_provider import HttpProvider
from shop.payments.provider import Intent, PaymentDeclined

shop = HttpProvider()
BACK = "http://127.0.0.1:1/orders/7/"


def key() -> str:
    return str(uuid4())


def asked(return_url: str = BACK, expires: datetime | None = None) -> Intent:
    """Return a payment that needs the buyer."""
    return shop.create_intent(
        order=300,
        amount=99_900,
        currency="CNY",
        key=key(),
        return_url=return_url,
        expires=expires,
    )


def page(intent: Intent, **headers: str) -> str:
    assert intent.action is not None
    answer = urllib3.request("GET", intent.action.url, headers=headers)
    assert answer.status == 200
    return answer.data.decode()


def choose(intent: Intent, choice: str) -> urllib3.BaseHTTPResponse:
    assert intent.action is not None
    return urllib3.request(
        "POST",
        intent.action.url,
        body=f"choice={choice}".encode(),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        redirect=False,
    )


def test_page_shows_the_amount_in_the_buyers_language(psp):
    intent = asked()
    assert "Pay CN¥999.00" in page(intent)
    assert "支付 ¥999.00" in page(intent, **{"Accept-Language": "zh-CN"})
    assert "支付 ¥999.00" in page(intent, Cookie="django_language=zh-hans")


@pytest.mark.parametrize(
    ("choices", "status"),
    [
        (["pay"], "requires_capture"),
        (["ask", "pay"], "requires_capture"),
        (["decline"], "failed"),
        (["ask", "decline"], "failed"),
        (["leave"], "requires_action"),
    ],
)
def test_choice_decides_and_leads_back_to_the_shop(choices, status, psp):
    intent = asked()
    for question in choices[:-1]:
        assert "Your bank asks" in choose(intent, question).data.decode()
    answer = choose(intent, choices[-1])
    assert (answer.status, answer.headers["Location"]) == (303, BACK)
    assert shop.get(intent.id).status == status


def test_payment_is_captured_only_if_it_was_authorised(psp):
    intent = asked()
    with pytest.raises(PaymentDeclined, match="requires_action"):
        shop.capture(intent.id, key=key())
    choose(intent, "pay")
    assert shop.capture(intent.id, key=key()).status == "captured"
    assert psp.ledger(300) == [(300, "capture", 99_900)]


def test_cancelled_or_expired_payment_cannot_be_paid(psp):
    cancelled, late = asked(), asked(expires=datetime.now(UTC) + timedelta(seconds=0.2))
    assert shop.cancel(cancelled.id, key=key()).status == "cancelled"
    time.sleep(0.3)
    for intent in (cancelled, late):
        choose(intent, "pay")
        assert "Nothing can be paid here" in page(intent)
        assert shop.get(intent.id).status != "requires_capture"


def test_buyer_without_a_browser_is_asked_if_so_configured(psp):
    assert asked(return_url="").status == "requires_capture"
    psp.behave(asks=1.0)
    intent = asked(return_url="")
    assert choose(intent, "pay").status == 200
    assert shop.get(intent.id).status == "requires_capture"


def test_buyer_with_a_browser_pays_at_once_if_so_configured(psp):
    psp.behave(page=False)
    assert asked().status == "requires_capture"
    psp.behave(page=False, asks=1.0)
    assert asked().status == "requires_action"


def test_refund_is_found_by_its_key(psp):
    intent, same = asked(return_url=""), key()
    shop.capture(intent.id, key=key())
    assert shop.find_refund(intent.id, key=same) is None
    given = shop.refund(intent.id, amount=400, key=same)
    assert shop.find_refund(intent.id, key=same) == given


def test_page_of_no_payment_is_not_found(psp):
    assert urllib3.request("GET", f"{psp.url}/pay/pi_nothing").status == 404
    assert json.loads(psp.call("behaviour"))["asks"] == 0.0


def test_repeat_with_another_page_and_end_gets_the_first_answer(psp):
    same = key()
    first, again = (
        shop.create_intent(
            order=301, amount=5, currency="CNY", key=same, return_url=page, expires=end
        )
        for page, end in ((BACK, datetime.now(UTC)), ("", None))
    )
    assert (again.id, again.status) == (first.id, "requires_action")
