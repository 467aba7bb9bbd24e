"""The adapter of Stripe against localstripe: by the fake's own books, and by our audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from shop import orders, payments
from shop.audit import examine
from shop.catalogue.models import Sale
from shop.orders.models import Order
from shop.payments.models import Payment, Refund
from shop.payments.provider import PaymentDeclined, PaymentUnknown, provider, to_provider
from shop.payments.stripe import Stripe
from shop.tests import fake_stripe
from shop.tests.catalogue import a_sale, an_order
from shop.tests.fake_stripe import FakeStripe
from shop.tests.money import begin_to_pay, make_due, must_agree, receive_webhook, status, sweep

pytestmark = pytest.mark.django_db(transaction=True)

AUTHORISED = "payment_intent.amount_capturable_updated"


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeStripe]:
    """Stripe's books."""
    with fake_stripe.running(tmp_path_factory.mktemp("stripe")) as running:
        yield running


@pytest.fixture(autouse=True)
def shop_on_stripe(books: FakeStripe, settings: Any) -> Iterator[None]:
    """The shop, whose payment provider is Stripe; at the end, its audit must be clean."""
    settings.PAYMENT_PROVIDER = "shop.payments.stripe.Stripe"
    settings.PSP_URL, settings.PSP_KEY = books.url, fake_stripe.KEY
    settings.PSP_WEBHOOK_SECRET = fake_stripe.SECRET
    settings.PSP_PUBLIC_KEY = "pk_test_1"
    provider.cache_clear()
    yield
    books.lose.clear()
    provider.cache_clear()


@pytest.fixture
def sale() -> Sale:
    return a_sale(limit=3)


def hear(books: FakeStripe, kind: str, intent: str) -> int:
    """Deliver an event about a PaymentIntent as it is now."""
    return receive_webhook(*books.event(kind, books.intent(intent)))


def pay(books: FakeStripe, sale: Sale) -> tuple[Order, str]:
    """Pay an order; return it, and the number of its PaymentIntent."""
    order, intent = begin_to_pay(sale)
    books.buyer_pays(intent)
    assert hear(books, AUTHORISED, intent) == 200
    assert status(order) == "paid"
    return order, intent


def _order(intent: dict[str, Any]) -> str:
    """Return the order that a PaymentIntent names."""
    return str(intent["metadata"].get("order", ""))


def test_payment_is_captured_after_the_buyers_card(books, sale):
    order, intent = begin_to_pay(sale)
    progress = payments.progress(order)
    assert progress.action is not None
    assert (progress.state, progress.action["kind"]) == ("action", "script")
    assert progress.action["client_secret"] == books.intent(intent)["client_secret"]
    books.buyer_pays(intent)
    assert books.intent(intent)["status"] == "requires_capture"
    for _ in range(2):  # twice, under two numbers
        assert hear(books, AUTHORISED, intent) == 200
    assert status(order) == "paid"
    assert hear(books, "payment_intent.succeeded", intent) == 200
    assert books.kept(intent) == order.amount
    must_agree(books, intent)


def test_payment_goes_on_after_the_banks_question(books, sale):
    order, intent = begin_to_pay(sale)
    books.buyer_pays(intent, "asks")
    assert hear(books, "payment_intent.requires_action", intent) == 200
    assert payments.progress(order).state == "action"
    books.bank_asked(intent, agrees=True)
    assert hear(books, AUTHORISED, intent) == 200
    assert status(order) == "paid"
    must_agree(books, intent)


@pytest.mark.parametrize("how", ["card", "bank"])
def test_payment_that_is_declined_can_be_paid_again(how, books, sale):
    order, intent = begin_to_pay(sale)
    if how == "card":
        books.buyer_pays(intent, "declined")
    else:
        books.buyer_pays(intent, "asks")
        books.bank_asked(intent, agrees=False)
    assert hear(books, "payment_intent.payment_failed", intent) == 200
    assert (status(order), payments.progress(order).state) == ("awaiting_payment", "action")
    payments.pay(order)
    assert Payment.objects.get(order=order).intent == intent
    books.buyer_pays(intent)
    assert hear(books, AUTHORISED, intent) == 200
    assert status(order) == "paid"
    must_agree(books, intent)


def test_walking_away_takes_nothing(books, sale):
    order, intent = begin_to_pay(sale)
    make_due(order)
    orders.expire()
    sweep()
    assert books.intent(intent)["status"] == "canceled"
    assert hear(books, "payment_intent.canceled", intent) == 200
    assert status(order) == "expired"
    must_agree(books, intent)


def test_authorisation_after_the_expiry_is_released(books, sale):
    order, intent = begin_to_pay(sale)
    make_due(order)
    orders.expire()
    books.buyer_pays(intent)
    assert hear(books, AUTHORISED, intent) == 200
    assert books.intent(intent)["status"] == "canceled"
    assert status(order) == "expired"
    must_agree(books, intent)


def test_money_taken_after_the_expiry_goes_back(books, sale):
    order, intent = begin_to_pay(sale)
    make_due(order)
    orders.expire()
    books.buyer_pays(intent)
    # As if our cancellation had come too late.
    books.call("POST", f"/v1/payment_intents/{intent}/capture")
    assert hear(books, "payment_intent.succeeded", intent) == 200
    sweep()
    assert status(order) == "expired"
    assert books.kept(intent) == 0
    must_agree(books, intent)


def test_event_before_the_answer_is_sent_again(books, sale):
    order = an_order(sale)
    books.lose.append("payment_intents")
    with pytest.raises(PaymentUnknown):
        payments.pay(order)
    [intent] = [
        intent["id"] for intent in books.intents() if intent["metadata"]["order"] == str(order.pk)
    ]
    books.buyer_pays(intent)
    assert hear(books, AUTHORISED, intent) == 503
    payments.pay(order)  # the same key gets the first answer
    assert hear(books, AUTHORISED, intent) == 200
    assert status(order) == "paid"
    must_agree(books, intent)


def test_events_out_of_order_change_nothing(books, sale):
    order, intent = begin_to_pay(sale)
    before = books.event("payment_intent.created", books.intent(intent))
    books.buyer_pays(intent)
    authorised = books.event(AUTHORISED, books.intent(intent))
    books.call("POST", f"/v1/payment_intents/{intent}/capture")
    for event in (
        books.event("payment_intent.succeeded", books.intent(intent)),
        authorised,
        before,
        authorised,
    ):
        assert receive_webhook(*event) == 200
    assert status(order) == "paid"
    must_agree(books, intent)


@pytest.mark.parametrize("lost", ["capture", "payment_intents"])
def test_lost_answer_is_unknown_and_the_sweep_gets_the_truth(lost, books, sale):
    order = an_order(sale)
    if lost == "payment_intents":
        books.lose.append(lost)
        with pytest.raises(PaymentUnknown):
            payments.pay(order)
    payments.pay(order)
    intent = Payment.objects.get(order=order).intent
    books.buyer_pays(intent)
    if lost == "capture":
        books.lose.append(lost)
    assert hear(books, AUTHORISED, intent) == 200
    sweep()
    assert status(order) == "paid"
    must_agree(books, intent)


@pytest.mark.parametrize("forgets", [False, True])
def test_refund_whose_answer_is_lost_is_given_once(forgets, books, sale):
    order, intent = pay(books, sale)
    books.lose.append("refunds")
    with pytest.raises(PaymentUnknown):
        payments.refund(order)
    if forgets:
        books.forget_keys()
    sweep()
    assert status(order) == "refunded"
    assert len(books.refunds(intent)) == 1
    must_agree(books, intent)


def test_refund_that_fails_later_is_open_again(books, sale):
    order, intent = pay(books, sale)
    payments.refund(order)
    assert status(order) == "refunded"
    must_agree(books, intent)
    number = Refund.objects.get(payment__order=order).number
    books.failed.add(number)
    [failed] = books.refunds(intent)
    for kind in ("refund.updated", "refund.failed", "charge.refund.updated"):
        assert receive_webhook(*books.event(kind, failed)) == 200
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("refund_pending", 0)
    assert examine().overdue == ["1 refunds were refused by the provider"]
    assert books.kept(intent) == order.amount


def test_dispute_is_reported_until_it_is_won(books, sale):
    _, intent = pay(books, sale)
    opened = books.dispute(intent, "needs_response")
    assert receive_webhook(*books.event("charge.dispute.created", opened)) == 200
    assert len(examine().overdue) == 1
    won = books.dispute(intent, "won")
    assert receive_webhook(*books.event("charge.dispute.closed", won)) == 200
    assert examine().overdue == []
    must_agree(books, intent)


def test_capture_of_a_cancelled_payment_is_a_refusal(books, sale):
    _, intent = begin_to_pay(sale)
    client = Stripe()
    assert client.cancel(intent, key="cancel-1").status == "cancelled"
    with pytest.raises(PaymentDeclined, match="unexpected_state"):
        client.capture(intent, key="capture-1")


def test_wrong_key_of_ours_says_nothing_about_money(settings):
    settings.PSP_KEY = "wrong"
    with pytest.raises(PaymentUnknown):
        Stripe().create_intent(order=1, amount=100, currency="EUR", key="a")


def test_key_used_for_another_request_is_unknown():
    client = Stripe()
    client.create_intent(order=1, amount=100, currency="EUR", key="same")
    with pytest.raises(PaymentUnknown):
        client.create_intent(order=1, amount=200, currency="EUR", key="same")


def test_webhook_that_is_not_of_stripe_is_refused(books, sale):
    _, intent = begin_to_pay(sale)
    body, headers = books.event(AUTHORISED, books.intent(intent))
    assert receive_webhook(body + b" ", headers) == 401
    assert receive_webhook(body, {}) == 401
    assert receive_webhook(*fake_stripe.signed(body, ago=400)) == 401
    assert receive_webhook(*fake_stripe.signed(body, secret="another")) == 401


def test_stripe_events_of_other_programs_are_acknowledged(books):
    strange = books.call(
        "POST", "/v1/payment_intents", amount="500", currency="eur", capture_method="manual"
    )
    for kind in ("payment_intent.created", "payment_intent.succeeded"):
        assert receive_webhook(*books.event(kind, strange | {"status": "succeeded"})) == 200
    assert (
        receive_webhook(*books.event("customer.created", {"id": "cus_1", "object": "customer"}))
        == 200
    )


@pytest.mark.parametrize(
    ("currency", "places"),
    [("EUR", 2), ("JPY", 0), ("MGA", 0), ("ISK", 2), ("UGX", 2), ("KWD", 3), ("CNY", 2)],
)
def test_amounts_have_the_decimal_places_of_stripes_table(currency, places):
    assert Stripe().decimals(currency) == places


def test_stripe_refuses_thousandths_before_the_call():
    with pytest.raises(PaymentDeclined, match="not_expressible"):
        to_provider(1_001, "KWD")
    assert to_provider(1_010, "KWD") == 1_010


def test_stripe_script_is_loaded_only_by_the_payment_page(sale, ann):
    client = Client()
    client.force_login(ann.user)
    order = ann.order(sale)
    answer = client.post(f"/orders/{order}/payment/", follow=True)
    page = answer.content.decode()
    assert '<script src="https://js.stripe.com/v3/" defer>' in page
    assert 'data-key="pk_test_1"' in page
    assert "script-src 'self' https://js.stripe.com" in answer["Content-Security-Policy"]
    other = client.get(f"/orders/{order}/")
    assert "stripe" not in other.content.decode()
    assert "stripe" not in other["Content-Security-Policy"]
