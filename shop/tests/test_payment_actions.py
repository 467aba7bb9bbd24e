"""Payments in which the buyer takes part: deadlines, who comes late, who fails and tries again."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client

from inventory import services
from inventory.models import Reservation
from inventory.tests.helpers import at_once, book
from shop import orders, payments
from shop.catalogue.models import Sale
from shop.conftest import Buyer
from shop.operating.headers import with_sources
from shop.orders.models import Order
from shop.payments import paying, settlement
from shop.payments.models import Payment
from shop.payments.provider import Action, Intent
from shop.refusals import Refusal
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import check, come_to_rest, make_due, status, sweep
from shop.tests.provider import Crash, FakeProvider, crash_at

pytestmark = pytest.mark.django_db(transaction=True)

HOLD, ACTION_HOLD = timedelta(minutes=15), timedelta(minutes=10)


@pytest.fixture
def asking(fake_provider: FakeProvider) -> FakeProvider:
    """The provider, whose payments all need the buyer."""
    fake_provider.asks = True
    return fake_provider


@pytest.fixture
def sale(asking: FakeProvider) -> Sale:
    return a_sale(limit=3)


def the_intent(provider: FakeProvider, order: Order) -> Intent:
    """Return the latest payment of an order at the provider."""
    return [intent for intent in provider.intents.values() if intent.order == order.pk][-1]


def buyer_pays(provider: FakeProvider, order: Order) -> None:
    """Let the buyer pay, and deliver the event."""
    hear(provider.buyer_pays(the_intent(provider, order).id))


def hear(intent: Intent) -> None:
    """Apply an event about a payment, as the webhook does."""
    with transaction.atomic():
        settlement.record_payment(intent)
    payment = Payment.objects.filter(intent=intent.id, state="pending").first()
    if intent.status == "requires_capture" and payment:
        paying.advance(payment)


def seconds_to_pay(order: Order) -> float:
    """Return the seconds from the order's creation to its deadline."""
    order.refresh_from_db()
    [reservation] = Reservation.objects.filter(orderline__order=order)
    assert reservation.deadline == order.pay_before
    return (order.pay_before - order.created).total_seconds()


def age(order: Order, seconds: float) -> None:
    """Make an order older, with its deadline."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE shop_order SET created = created - make_interval(secs => %s), "
            "pay_before = pay_before - make_interval(secs => %s) WHERE id = %s",
            [seconds, seconds, order.pk],
        )
        cursor.execute(
            "UPDATE inventory_reservation SET deadline = deadline - make_interval(secs => %s) "
            "WHERE id IN (SELECT reservation_id FROM shop_orderline WHERE order_id = %s)",
            [seconds, order.pk],
        )


def test_payment_with_an_action_is_captured_after_it(sale, asking):
    order = payments.pay(an_order(sale))
    progress = payments.progress(order)
    assert (order.status, progress.state) == ("awaiting_payment", "action")
    assert progress.action is not None
    assert progress.action["url"] == f"https://provider.example/{the_intent(asking, order).id}"
    assert asking.captures[order.pk] == []
    authorised = asking.buyer_pays(the_intent(asking, order).id)
    for _ in range(2):  # however often it is reported
        hear(authorised)
    assert status(order) == "paid"
    assert payments.progress(Order.objects.get(pk=order.pk)).state == "none"
    check(sale, asking)


def test_payment_finds_what_the_buyer_did_without_a_webhook(sale, asking):
    order = payments.pay(an_order(sale))
    asking.buyer_pays(the_intent(asking, order).id)
    sweep()
    assert status(order) == "paid"


def test_payment_that_failed_is_not_the_end_of_its_order(sale, asking):
    order = payments.pay(an_order(sale))
    first = the_intent(asking, order)
    hear(asking.buyer_declines(first.id))
    assert payments.progress(order).state == "failed"
    payments.pay(order)
    assert payments.progress(order).state == "action"
    hear(asking.intents[first.id])  # once more, and late
    assert payments.progress(order).state == "action"
    buyer_pays(asking, order)
    assert status(order) == "paid"
    assert [payment.state for payment in order.payments.order_by("pk")] == ["failed", "captured"]
    check(sale, asking)


def test_action_moves_the_deadline_and_never_beyond_both_times(sale, asking):
    order = an_order(sale)
    assert seconds_to_pay(order) == HOLD.total_seconds()
    payments.pay(order)
    # It began at once: ten minutes from now are within the first fifteen.
    assert seconds_to_pay(order) == HOLD.total_seconds()
    hear(asking.buyer_declines(the_intent(asking, order).id))
    age(order, 14 * 60)
    payments.pay(order)
    assert 24 * 60 <= seconds_to_pay(order) < 24 * 60 + 30
    deadline = order.pay_before
    payments.pay(order)  # the same attempt again
    order.refresh_from_db()
    assert order.pay_before == deadline
    hear(asking.buyer_declines(the_intent(asking, order).id))
    age(order, 9 * 60)
    payments.pay(order)
    assert seconds_to_pay(order) == (HOLD + ACTION_HOLD).total_seconds()


def test_hold_that_has_ended_is_not_prolonged(sale):
    order = an_order(sale)
    make_due(order)
    with transaction.atomic():
        assert services.hold_until([order.lines.get().pk], order.created + HOLD) is None


def test_order_whose_buyer_walked_away_expires_and_takes_nothing(sale, asking):
    order = payments.pay(an_order(sale))
    make_due(order)
    orders.expire()
    sweep()
    assert status(order) == "expired"
    assert the_intent(asking, order).status == "cancelled"
    assert Payment.objects.get(order=order).state == "failed"
    assert book(sale.item_id).available == 10
    check(sale, asking)


@pytest.mark.parametrize("left", [True, False])
def test_buyer_who_pays_after_the_deadline_gets_the_money_back(left, asking):
    sale = a_sale(stock=1)
    order = payments.pay(an_order(sale))
    make_due(order)
    orders.expire()
    if not left:
        asking.asks = False
        payments.pay(an_order(sale))
    # The provider has taken it by itself, such as after a QR code was scanned.
    intent = asking._take(the_intent(asking, order))
    hear(intent)
    hear(intent)
    come_to_rest(asking)
    assert status(order) == "expired"
    assert asking.refunds[order.pk] == [order.amount]
    check(sale, asking)


def test_authorisation_after_the_deadline_is_cancelled(sale, asking):
    order = payments.pay(an_order(sale))
    make_due(order)
    orders.expire()
    buyer_pays(asking, order)
    assert the_intent(asking, order).status == "cancelled"
    assert asking.captures[order.pk] == []


def test_payment_is_shared_by_two_windows(sale, asking):
    order = an_order(sale)
    at_once([partial(payments.pay, Order.objects.get(pk=order.pk)) for _ in range(4)])
    assert len(asking.intents) == 1
    buyer_pays(asking, order)
    assert asking.captures[order.pk] == [order.amount]


POINTS = [
    (when, call) for call in ("create", "get", "capture", "cancel") for when in ("before", "after")
]


@pytest.mark.parametrize("end", ["paid", "expired", "cancelled"])
@pytest.mark.parametrize(("when", "call"), POINTS)
def test_crash_during_a_payment_action_charges_once_or_not(when, call, end, sale, asking):
    order = an_order(sale)
    setattr(asking, when, crash_at(call))

    def do(act) -> None:
        """Act in a process that may crash."""
        try:
            act()
        except Crash:
            asking.before = asking.after = lambda made: None

    do(lambda: payments.pay(order))
    do(lambda: payments.pay(order))
    if end == "paid":
        do(lambda: buyer_pays(asking, order))
    elif end == "cancelled":
        orders.cancel(order)
    else:
        make_due(order)
        orders.expire()
    do(sweep)
    come_to_rest(asking)
    assert status(order) == end
    assert asking.captures[order.pk] == ([order.amount] if end == "paid" else [])
    assert {intent.status for intent in asking.intents.values()} <= {"captured", "cancelled"}
    check(sale, asking)


def test_refund_is_looked_for_before_it_is_repeated(fake_provider, sale):
    """The provider has forgotten the key of the first request."""
    fake_provider.asks = False
    order = payments.pay(an_order(sale))
    fake_provider.after = crash_at("refund")
    with pytest.raises(Crash):
        payments.refund(order)
    fake_provider.after = lambda call: None
    fake_provider._answers.clear()
    sweep()
    assert status(order) == "refunded"
    assert fake_provider.refunds[order.pk] == [order.amount]


def test_api_answers_with_the_action(sale: Sale, ann: Buyer) -> None:
    order = ann.order(sale)
    assert ann.get(f"orders/{order}").json()["payment"] == "none"
    document = ann.post(f"orders/{order}/payment").json()
    assert (document["status"], document["payment"]) == ("awaiting_payment", "action")
    assert document["action"]["kind"] == "redirect"
    assert document["action"]["expires"] == document["pay_before"]
    assert ann.get(f"orders/{order}").json() == document
    Payment.objects.update(state="failed", settled=Now())
    shown = ann.get(f"orders/{order}").json()
    assert shown["payment"] == "failed"
    assert "action" not in shown


ACTIONS = {
    "redirect": (Action("redirect", url="https://provider.example/pay?a=1&b=2"), 'content="0; url'),
    "qr": (Action("qr", data="weixin://wxpay/1"), "<svg"),
    "script": (Action("script", client_secret="pi_1_secret"), 'data-secret="pi_1_secret"'),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_payment_page_shows_what_the_buyer_has_to_do(kind, sale, ann, asking, monkeypatch):
    action, shown = ACTIONS[kind]
    client = Client()
    client.force_login(ann.user)
    order = ann.order(sale)
    create = asking._create

    def create_with_action(*arguments):
        intent = create(*arguments)
        asking.intents[intent.id] = made = Intent(
            intent.id,
            intent.order,
            intent.amount,
            intent.currency,
            "requires_action",
            reference=intent.reference,
            action=action,
        )
        return made

    monkeypatch.setattr(asking, "_create", create_with_action)
    sources = {"script-src": "https://js.example", "frame-src": "https://js.example"}
    monkeypatch.setattr(type(asking), "sources", sources)
    monkeypatch.setattr(type(asking), "script", "https://js.example/v1.js")
    monkeypatch.setattr(type(asking), "form_script", "shop/shop.js")
    answer = client.post(f"/orders/{order}/payment/", follow=True)
    assert answer.redirect_chain == [(f"/orders/{order}/payment/", 302)]
    page = answer.content.decode()
    assert shown in page
    assert "¥999.00" in page
    policy = answer["Content-Security-Policy"]
    assert ("script-src 'self' https://js.example" in policy) == (kind == "script")
    # The order's page leads back to it, and its buyer only gets there.
    assert f"/orders/{order}/payment/" in client.get(f"/orders/{order}/").content.decode()
    client.logout()
    assert client.get(f"/orders/{order}/payment/").status_code == 302


def test_payment_page_without_anything_to_do_is_the_orders_page(sale, ann, fake_provider):
    fake_provider.asks = False
    client = Client()
    client.force_login(ann.user)
    order = ann.order(sale)
    assert client.get(f"/orders/{order}/payment/")["Location"] == f"/orders/{order}/"
    answer = client.post(f"/orders/{order}/payment/", follow=True)
    assert answer.redirect_chain == [(f"/orders/{order}/", 302)]
    assert 'data-order-status="paid"' in answer.content.decode()


def test_policy_of_a_payment_page_allows_only_what_it_says():
    found = with_sources({"script-src": "https://js.example"})
    assert found["Content-Security-Policy"].endswith("; script-src 'self' https://js.example")
    assert re.search(r'payment=\(self "https://js.example"\)', found["Permissions-Policy"])


def test_declined_action_does_not_refuse_the_next_request(sale, asking):
    order = payments.pay(an_order(sale))
    asking.buyer_declines(the_intent(asking, order).id)
    # The buyer clicks before the event has come: this attempt has failed, and the next one begins.
    with pytest.raises(Refusal, match="payment_declined"):
        payments.pay(order)
    assert payments.progress(payments.pay(order)).state == "action"
