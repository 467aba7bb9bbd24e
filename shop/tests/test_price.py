"""What an order costs: nothing, too much, or another amount than the buyer saw."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from inventory.models import OutboxMessage, Reservation
from inventory.tests.helpers import at_once, book, in_thread, outsider, wait_until_blocked
from shop import orders, payments
from shop.accounts.models import User
from shop.audit import examine
from shop.background.follow_up import follow_up
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.checkout import Wanted, buy, check_out
from shop.money import MAX_AMOUNT
from shop.orders import Part
from shop.orders.models import Order
from shop.pages.keys import amount_of, new_key
from shop.payments.models import Payment
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, mail, mails
from shop.tests.money import check, come_to_rest, make_due

pytestmark = pytest.mark.django_db(transaction=True)


def key_on(text: str) -> str:
    found = re.search(r'name="key" value="([^"]+)"', text)
    assert found is not None
    return found[1]


def raise_price(sale: Sale, price: int) -> None:
    Sale.objects.filter(pk=sale.pk).update(price=price)


@pytest.fixture(autouse=True)
def _cold_caches():
    sale_cache.cache_clear()


def order_by(channel: str, sale: Sale, ann: Any, browser: Any) -> Order:
    """Order two units through an interface of the shop."""
    if channel == "api":
        assert ann.buy(sale, 2).status_code == 201
    elif channel == "api cart":
        body = {"lines": [{"sale": sale.pk, "quantity": 2}]}
        assert ann.call("POST", "orders", body, idempotency_key=str(uuid4())).status_code == 201
    else:
        path = sale.get_absolute_url()
        if channel == "cart":
            browser.post(reverse("cart-line", args=[sale.pk]), {"quantity": 2})
            path = "/cart/"
        form = {"key": key_on(browser.get(path).text), "quantity": 2, f"{sale.pk}-quantity": 2}
        assert browser.post(path, form).status_code == 302
    return Order.objects.get()


def order_units(
    sale: Sale, buyer: User, units: int, *, cart: bool, expected_amount: int | None = None
) -> None:
    if cart:
        check_out(buyer.pk, uuid4(), [Wanted(sale.pk, units)], expected_amount=expected_amount)
    else:
        buy(sale.pk, buyer.pk, uuid4(), units, expected_amount=expected_amount)


CHANNELS = ["api", "api cart", "page", "cart"]


# nothing to pay


@pytest.mark.parametrize("channel", CHANNELS)
def test_free_order_is_confirmed_at_once(channel, sale_of, ann, browser, fake_provider):
    sale = sale_of(price=0)
    order = order_by(channel, sale, ann, browser)
    assert order.status == "paid"
    assert (book(sale.item_id).held, book(sale.item_id).confirmed) == (0, 2)
    make_due(order)
    assert orders.expire() == 0
    check(sale, fake_provider)
    assert examine().problems == []
    follow_up()
    [only] = mails(order)
    assert only == mail(order).get()
    assert not Payment.objects.exists()


def test_free_orders_mail_asks_for_nothing(sale_of, ann, mailoutbox):
    User.objects.update(email="ann@example.com")
    order = ann.order(sale_of(price=0))
    follow_up()
    [sent] = mailoutbox
    assert f"Order {order} is confirmed" in sent.subject
    assert "pay" not in sent.body.lower()


def test_free_order_is_confirmed_without_payments(sale_of, ann, settings, mailoutbox):
    settings.PAYMENT_PROVIDER = ""
    User.objects.update(email="ann@example.com")
    order = ann.order(sale_of(price=0))
    assert Order.objects.get().status == "paid"
    follow_up()
    assert [f"Order {order} is confirmed" in message.subject for message in mailoutbox] == [True]


def test_free_order_can_be_returned_and_not_cancelled(sale_of, ann, fake_provider):
    sale = sale_of(price=0)
    order = ann.order(sale)
    assert ann.post(f"orders/{order}/payment").json()["status"] == "paid"
    assert ann.post(f"orders/{order}/cancel").json()["code"] == "order_paid"
    answer = ann.post(f"orders/{order}/refund")
    assert (answer.status_code, answer.json()["status"]) == (200, "refunded")
    assert book(sale.item_id).available == 10
    check(sale, fake_provider)


def test_free_order_is_the_same_again_under_its_key(sale_of, ann):
    sale, key = sale_of(price=0), uuid4()
    first, again = ann.buy(sale, key=key), ann.buy(sale, key=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


def test_free_and_paid_purchases_share_a_batch(sale_of):
    sale = sale_of(100, price=0, limit=1)
    buyers = [a_buyer() for _ in range(20)]
    at_once([partial(buy, sale.pk, buyer.pk, uuid4(), 1) for buyer in buyers])
    assert Order.objects.filter(status="paid").count() == 20
    assert Reservation.objects.filter(state="confirmed").count() == 20


def test_cart_whose_remaining_lines_are_free_is_confirmed(sale_of, fake_provider):
    paid, free, buyer = sale_of(price=500), sale_of(price=0), a_buyer()
    wanted = [Wanted(paid.pk, 1), Wanted(free.pk, 1)]
    order = Order.objects.get(pk=check_out(buyer.pk, uuid4(), wanted).order.pk)
    assert order.status == "awaiting_payment"
    part = Part(1, uuid4(), paid.pk)
    for _ in range(2):
        orders.cancel(order, part)
    order.refresh_from_db()
    assert (order.status, order.amount) == ("paid", 0)
    assert (book(paid.item_id).available, book(free.item_id).confirmed) == (10, 1)
    assert examine().problems == []


# too much


@pytest.mark.parametrize("cart", [False, True])
def test_amount_beyond_the_column_is_refused(cart, sale_of, ann):
    sale, key = sale_of(price=1, limit=5), str(uuid4())
    raise_price(sale, MAX_AMOUNT)
    if cart:
        body = {"lines": [{"sale": sale.pk, "quantity": 2}]}
        answer = ann.call("POST", "orders", body, idempotency_key=key)
    else:
        answer = ann.buy(sale, 2)
    assert (answer.status_code, answer.json()["code"]) == (422, "amount_too_large")
    assert ann.buy(sale, 1).status_code == 201


@pytest.mark.parametrize("cart", [False, True])
def test_amount_that_grew_beyond_the_column_is_refused(cart, sale_of):
    sale, buyer = sale_of(price=1, limit=5), a_buyer()
    sale_cache().get(sale.pk)
    raise_price(sale, MAX_AMOUNT)  # which the process has not read yet
    with pytest.raises(Refusal, match="amount_too_large"):
        order_units(sale, buyer, 2, cart=cart)
    assert not Order.objects.exists()


@pytest.mark.parametrize("path", ["sale", "cart"])
def test_page_refuses_an_amount_beyond_the_column(path, sale_of, browser):
    sale = sale_of(price=1, limit=5)
    raise_price(sale, MAX_AMOUNT)
    path = sale.get_absolute_url() if path == "sale" else "/cart/"
    browser.post(reverse("cart-line", args=[sale.pk]), {"quantity": 2})
    form = {"key": key_on(browser.get(path).text), "quantity": 2, f"{sale.pk}-quantity": 2}
    answer = browser.post(path, form)
    assert answer.status_code == 422
    assert "total is too large" in answer.text


@pytest.mark.parametrize("price", ["9e18", "1e30", "92233720368547758.07", "1e999999"])
def test_admin_refuses_a_price_beyond_the_column(price, sale_of, admin_client):
    sale = sale_of(price=500, limit=5)
    form = {
        "price": price,
        "limit": 5,
        "hold": "00:15:00",
        "starts_at_0": "2020-01-01",
        "starts_at_1": "00:00",
        "ends_at_0": "2035-01-01",
        "ends_at_1": "00:00",
    }
    answer = admin_client.post(reverse("admin:shop_sale_change", args=[sale.pk]), form)
    assert answer.status_code == 200
    assert "price" in answer.context["adminform"].form.errors
    sale.refresh_from_db()
    assert sale.price == 500


@pytest.mark.parametrize("price", ["1e30", "1e999999", "Infinity", "92233720368547758.07"])
def test_create_sale_refuses_a_price_beyond_the_column(price):
    with pytest.raises(CommandError, match="--price"):
        call_command("create_sale", f"--price={price}", "--limit=2")
    assert not Sale.objects.exists()


# another amount than the buyer saw


@pytest.mark.parametrize("cart", [False, True])
def test_higher_price_than_expected_is_refused(cart, sale_of, ann):
    sale = sale_of(price=500)
    line, path, key = {"sale": sale.pk, "quantity": 2}, "orders", str(uuid4())
    body: dict[str, Any] = {"lines": [line]}
    if not cart:
        body, path = {"quantity": 2}, f"sales/{sale.pk}/orders"
    call = partial(ann.call, "POST", path, idempotency_key=key)
    answer = call({**body, "expected_amount": 999})
    assert (answer.status_code, answer.json()["code"]) == (409, "price_changed")
    assert answer.json()["amount"] == 1_000
    assert not Order.objects.exists()
    assert book(sale.item_id).available == 10
    bought = call({**body, "expected_amount": 1_000})
    assert (bought.status_code, bought.json()["amount"]["amount"]) == (201, 1_000)
    # What is expected is no part of the purchase: the same key gets the same order.
    raise_price(sale, 9_000)
    sale_cache.cache_clear()
    for expected in (999, 1_000, 9_000):
        again = call({**body, "expected_amount": expected})
        assert (again.status_code, again.json()["id"]) == (200, bought.json()["id"])


@pytest.mark.parametrize("expected", [-1, 2**63, "5", None, 1.5])
def test_expected_amount_is_a_number_of_minor_units(expected, sale_of, ann):
    body = {"quantity": 1, "expected_amount": expected}
    path = f"sales/{sale_of().pk}/orders"
    answer = ann.call("POST", path, body, idempotency_key=str(uuid4()))
    assert answer.status_code == 422


@pytest.mark.parametrize("cart", [False, True])
def test_lower_price_than_expected_is_sold_at_the_lower(cart, sale_of):
    sale, buyer = sale_of(price=500), a_buyer()
    sale_cache().get(sale.pk)
    raise_price(sale, 400)  # which the process has not read yet
    order_units(sale, buyer, 1, cart=cart, expected_amount=400)
    assert Order.objects.get().amount == 400


@pytest.mark.parametrize("cart", [False, True])
def test_price_is_compared_with_that_of_the_order(cart, sale_of):
    """The price is raised after this process has read it, and others of the batch accept it."""
    sale, buyer = sale_of(price=500), a_buyer()
    sale_cache().get(sale.pk)
    raise_price(sale, 600)
    for _ in range(2):
        with pytest.raises(Refusal, match="price_changed") as refused:
            order_units(sale, buyer, 1, cart=cart, expected_amount=500)
        assert refused.value.more == {"amount": 600}
    assert not Order.objects.exists()
    assert not OutboxMessage.objects.exists()


def test_expected_amount_refuses_nobody_else_of_the_batch(sale_of):
    sale = sale_of(100, price=500, limit=1)
    sale_cache().get(sale.pk)
    buyers = [a_buyer() for _ in range(16)]
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM inventory_item FOR NO KEY UPDATE")
        first = a_buyer()
        with in_thread(partial(buy, sale.pk, first.pk, uuid4(), 1)) as purchase:
            wait_until_blocked(1)  # so that the others become a batch
            raise_price(sale, 600)
            expect = [500 if n % 2 else None for n in range(16)]
            calls = [
                partial(buy, sale.pk, each.pk, uuid4(), 1, expected_amount=expected)
                for each, expected in zip(buyers, expect, strict=True)
            ]
            with in_thread(partial(at_once, calls)) as others:
                session.execute("COMMIT")
                purchase()
                answers = others()
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert {refusal.code for refusal in refused} == {"price_changed"}
    assert len(refused) == 8
    assert Order.objects.filter(amount=600).count() == 8


@pytest.mark.parametrize("channel", ["page", "cart"])
def test_form_does_not_order_at_a_price_nobody_saw(channel, sale_of, browser):
    sale = sale_of(price=500)
    path = sale.get_absolute_url()
    if channel == "cart":
        browser.post(reverse("cart-line", args=[sale.pk]), {"quantity": 2})
        path = "/cart/"
    form = {"quantity": 2, f"{sale.pk}-quantity": 2}
    shown = key_on(browser.get(path).text)
    raise_price(sale, 600)
    answer = browser.post(path, {**form, "key": shown})
    assert answer.status_code == 409
    assert "The price has risen since you opened this page." in answer.text
    assert not Order.objects.exists()
    assert key_on(answer.text) != shown
    # The page shows the new price now, so that the next click accepts it.
    assert browser.post(path, {**form, "key": key_on(answer.text)}).status_code == 302
    assert Order.objects.get().amount == 1_200


def test_form_sells_at_a_lower_price(sale_of, browser):
    sale = sale_of(price=500)
    key = key_on(browser.get(sale.get_absolute_url()).text)
    raise_price(sale, 400)
    browser.post(sale.get_absolute_url(), {"key": key, "quantity": 1})
    assert Order.objects.get().amount == 400


@pytest.mark.parametrize("amount", [0, 1, 99_900, 2**62 - 1])
def test_key_of_a_form_says_the_amount(amount):
    keys = {new_key(amount) for _ in range(100)}
    assert len(keys) == 100
    assert {amount_of(key) for key in keys} == {amount}
    assert {key.version for key in keys} == {8}


def test_key_that_says_no_amount():
    assert amount_of(uuid4()) is None
    assert amount_of(new_key(2**62)) is None
    assert amount_of(new_key(-1)) is None


def test_payment_during_the_cancellation_goes_back(sale_of, fake_provider):
    """The free rest is confirmed while the provider works on the payment of the other part."""
    paid, free, buyer = sale_of(price=500), sale_of(price=0), a_buyer()
    wanted = [Wanted(paid.pk, 1), Wanted(free.pk, 1)]
    order = Order.objects.get(pk=check_out(buyer.pk, uuid4(), wanted).order.pk)
    fake_provider.slow = True
    payments.pay(order)
    orders.cancel(order, Part(1, uuid4(), paid.pk))
    come_to_rest(fake_provider)
    order.refresh_from_db()
    assert order.status == "paid"
    assert sum(fake_provider.captures[order.pk]) == sum(fake_provider.refunds[order.pk]) == 500
    assert examine().problems == []
