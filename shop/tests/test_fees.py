"""Fees of an order: charged, shown, given back by the rule, and audited; tax that is included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from inventory.models import OutboxMessage
from shop import orders, payments
from shop.audit import examine
from shop.background import tasks
from shop.catalogue.models import Product
from shop.checkout import Wanted, buy, check_out
from shop.mails import rendering
from shop.mails.rendering import Kind
from shop.mails.sending import topic
from shop.money import included_tax
from shop.operating import checks
from shop.orders import Part
from shop.orders.models import Order, OrderFee
from shop.orders.totals import Basket, Fee, PricedLine, fees_given_back, total
from shop.pages.keys import new_key
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

SHIPPING = 490


def shipping(basket: Basket) -> Sequence[Fee]:
    """4.90, and gift wrap of 1.00 a unit from three units on; nothing above 5,000.00."""
    if basket.amount > 5_000_00:
        return [Fee("Shipping", 0)]
    wrap = [Fee("Gift wrap", 100 * basket.quantity)] if basket.quantity > 2 else []
    return [Fee("Shipping", SHIPPING, Decimal(19)), *wrap]


def twice(basket: Basket) -> Sequence[Fee]:
    return [Fee("Shipping", 1), Fee("Shipping", 2)]


def negative(basket: Basket) -> Sequence[Fee]:
    return [Fee("Shipping", -1)]


@pytest.fixture
def with_fees(settings: Any) -> None:
    """Let each order cost shipping."""
    settings.FEES = f"{__name__}.shipping"


@pytest.mark.parametrize(
    ("amount", "rate", "tax"),
    [
        (11_900, "19", 1_900),  # EUR 119.00
        (100, "8", 7),  # JPY 100: 7.407
        (10_500, "5", 500),  # KWD 10.500
        (107, "7", 7),
        (3, "20", 1),  # half a minor unit is rounded up
        (1, "19", 0),
        (999, "0", 0),
        (2**63 - 1, "25", 1_844_674_407_370_955_161),
        (100_00, "5.5", 521),
    ],
)
def test_included_tax_is_rounded_to_the_minor_unit(amount: int, rate: str, tax: int) -> None:
    assert included_tax(amount, Decimal(rate)) == tax


def test_total_adds_lines_and_fees(settings: Any) -> None:
    basket = Basket([PricedLine(1, 2, 999), PricedLine(2, 1, 2)], "EUR", {})
    assert (total(basket).amount, total(basket).fees) == (2_000, ())
    settings.FEES = f"{__name__}.shipping"
    assert (total(basket).units, total(basket).fee_amount, total(basket).amount) == (
        2000,
        790,
        2790,
    )


@pytest.mark.parametrize("function", ["twice", "negative"])
def test_total_refuses_what_is_no_fee(settings: Any, function: str) -> None:
    settings.FEES = f"{__name__}.{function}"
    with pytest.raises(ImproperlyConfigured):
        total(Basket([PricedLine(1, 1, 1)], "EUR", {}))


def test_check_finds_a_function_that_is_not_there(settings: Any) -> None:
    settings.FEES = f"{__name__}.shiping"
    [error] = checks.check_fees()
    assert "shiping" in error.msg


@pytest.mark.parametrize(
    ("whole", "handed_over", "back"),
    [(True, False, 490), (True, True, 0), (False, False, 0), (False, True, 0)],
)
def test_fees_go_back_with_a_whole_order_only(whole: bool, handed_over: bool, back: int) -> None:
    assert fees_given_back(490, whole=whole, handed_over=handed_over) == back


def test_purchase_without_fees_costs_no_query_for_them() -> None:
    sale, buyer = a_sale(), a_buyer()
    with CaptureQueriesContext(connection) as queries:
        buy(sale.pk, buyer.pk, uuid4(), 1)
    assert not [query for query in queries if "shop_orderfee" in query["sql"]]


@pytest.mark.usefixtures("with_fees")
@pytest.mark.parametrize(("price", "fees"), [(99_900, SHIPPING), (0, SHIPPING), (500_001, 0)])
def test_purchase_is_charged_its_fees(fake_provider: Any, price: int, fees: int) -> None:
    order = an_order(a_sale(price=price))
    assert (order.amount, order.fee_amount) == (price + fees, fees)
    assert order.status == Order.Status.AWAITING_PAYMENT
    payments.pay(order)
    assert fake_provider.captures[order.pk] == [price + fees]
    assert examine().problems == []


@pytest.mark.usefixtures("with_fees")
def test_fee_of_free_units_is_paid_and_confirmed_by_mail(fake_provider: Any) -> None:
    order = payments.pay(an_order(a_sale(price=0)))
    tasks.follow_up()
    mails = OutboxMessage.objects.filter(topic=topic(Kind.PAID)).values_list("key", flat=True)
    assert list(mails) == [str(order.pk)]


@pytest.mark.usefixtures("with_fees")
def test_cart_is_charged_fees_for_all_its_lines() -> None:
    sales = [a_sale(limit=2), a_sale()]
    wanted = [Wanted(sales[0].pk, 2), Wanted(sales[1].pk, 1)]
    bought = check_out(a_buyer().pk, uuid4(), wanted)
    order = Order.objects.get(pk=bought.order.pk)
    assert order.amount == 3 * 99_900 + SHIPPING + 300
    assert [(fee.name, fee.amount) for fee in order.fee_lines] == [
        ("Shipping", SHIPPING),
        ("Gift wrap", 300),
    ]


@pytest.mark.usefixtures("with_fees")
def test_expected_amount_includes_fees() -> None:
    sale, buyer = a_sale(), a_buyer()
    with pytest.raises(Refusal) as refused:
        buy(sale.pk, buyer.pk, uuid4(), 1, expected_amount=99_900)
    assert (refused.value.code, refused.value.more["amount"]) == ("price_changed", 100_390)
    assert not Order.objects.exists()
    assert buy(sale.pk, buyer.pk, uuid4(), 1, expected_amount=100_390).order.amount == 100_390


@pytest.mark.usefixtures("with_fees")
@pytest.mark.parametrize("in_parts", [False, True])
def test_fees_go_back_once_nothing_of_the_order_is_left(fake_provider: Any, in_parts: bool) -> None:
    order = payments.pay(an_order(a_sale(limit=2), quantity=2))
    if in_parts:
        payments.refund(order, Part(1, uuid4()))
        order.refresh_from_db()
        assert (order.refunded, order.fee_amount) == (99_900, SHIPPING)
        assert examine().problems == []
        payments.refund(order, Part(1, uuid4()))
    else:
        payments.refund(order)
    order.refresh_from_db()
    assert (order.refunded, order.fee_amount) == (2 * 99_900 + SHIPPING, 0)
    assert sum(fake_provider.refunds[order.pk]) == order.refunded
    assert order.status == Order.Status.REFUNDED
    assert examine().problems == []


@pytest.mark.usefixtures("with_fees")
def test_rule_that_keeps_fees_is_followed_and_audited(
    fake_provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shop.payments.refunding.fees_given_back", lambda fees, **_: 0)
    order = payments.pay(an_order(a_sale()))
    payments.refund(order)
    assert (order.status, order.refunded, order.fee_amount) == ("refunded", 99_900, SHIPPING)
    assert examine().problems == []


@pytest.mark.usefixtures("with_fees")
def test_audit_finds_a_fee_that_was_charged_and_not_given_back(fake_provider: Any) -> None:
    order = payments.refund(payments.pay(an_order(a_sale())))
    Order.objects.filter(pk=order.pk).update(fee_amount=SHIPPING)
    [problem] = examine().problems
    assert problem.startswith(f"order {order.pk} is refunded and worth 4.90 CNY, but 0.00 CNY")


@pytest.mark.usefixtures("with_fees")
def test_audit_finds_fees_that_do_not_add_up(fake_provider: Any) -> None:
    order = an_order(a_sale())
    OrderFee.objects.filter(order=order).update(amount=1)
    assert examine().problems == [
        f"order {order.pk} keeps 4.90 CNY for fees, but its fees are 0.01 CNY"
    ]


@pytest.mark.usefixtures("with_fees")
def test_cancelling_parts_leaves_the_fees(fake_provider: Any) -> None:
    order = an_order(a_sale(limit=2), quantity=2)
    orders.cancel(order, Part(1, uuid4()))
    assert (order.amount, order.cancelled_amount) == (99_900 + SHIPPING, 99_900)
    payments.pay(order)
    assert fake_provider.captures[order.pk] == [99_900 + SHIPPING]
    assert examine().problems == []


@pytest.mark.usefixtures("with_fees")
def test_pages_show_fees_and_tax(client: Client) -> None:
    sale, buyer = a_sale(), a_buyer()
    Product.objects.update(tax_rate=19)
    client.force_login(buyer)
    page = client.get(sale.get_absolute_url()).text
    assert "Shipping" in page
    assert "19% included" in page
    form = {"key": new_key(99_900), "quantity": 1}
    shown = client.post(sale.get_absolute_url(), form, follow=True).text
    assert "19% included: CN¥159.50" in shown
    assert "CN¥4.90 · 19% included: CN¥0.78" in shown
    assert "CN¥1,003.90" in shown
    client.post(reverse("cart-line", args=[sale.pk]), {"quantity": 1})
    assert "CN¥1,003.90" in client.get("/cart/").text


@pytest.mark.usefixtures("with_fees")
def test_page_sells_at_its_price_with_fees_and_no_higher(client: Client) -> None:
    sale = a_sale()
    client.force_login(a_buyer())
    form = {"key": new_key(99_899), "quantity": 1}
    client.post(sale.get_absolute_url(), form)
    assert not Order.objects.exists()


@pytest.mark.usefixtures("with_fees")
def test_mail_lists_fees_and_tax() -> None:
    sale = a_sale()
    Product.objects.update(tax_rate=19)
    mail = rendering.message(Kind.CONFIRMATION, an_order(sale))
    text, html = str(mail.body), str(mail.alternatives[0][0])
    assert "Tax included · 含税 (19%): CN¥159.50" in text
    assert re.search("Shipping · .*: CN¥4.90", text)  # a team may have translated it
    assert "Total · 合计: CN¥1,003.90" in text
    for amount in ("CN¥159.50", "CN¥4.90", "CN¥0.78", "CN¥1,003.90"):
        assert amount in html


@pytest.mark.usefixtures("with_fees")
def test_api_answers_with_fees_and_tax(ann: Any) -> None:
    path = f"sales/{a_sale().pk}/orders"
    Product.objects.update(tax_rate="7.5")
    bought = ann.call("POST", path, {"quantity": 1}, idempotency_key=str(uuid4())).json()

    def money(amount: int) -> dict[str, Any]:
        return {"amount": amount, "currency": "CNY"}

    fees = [
        {"name": "Shipping", "amount": money(SHIPPING), "tax_rate": 19.0, "tax": money(78)},
    ]
    assert bought["fees"] == fees
    [line] = bought["lines"]
    # The fee's tax is not the line's: 7.5 % of 999.00.
    assert (line["amount"], line["tax_rate"], line["tax"]) == (money(99_900), 7.5, money(6_970))
    later = ann.call("GET", f"orders/{bought['id']}").json()
    assert (later["fees"], later["lines"]) == (fees, bought["lines"])


def test_order_keeps_the_tax_rate_that_it_was_placed_at(fake_provider: Any) -> None:
    sale = a_sale(limit=2)
    Product.objects.update(tax_rate="7.5")
    order = an_order(sale)
    second = a_sale()
    cart = check_out(a_buyer().pk, uuid4(), [Wanted(sale.pk, 1), Wanted(second.pk, 1)])
    Product.objects.update(tax_rate=0)
    assert order.lines.get().tax_rate == Decimal("7.5")
    lines = Order.objects.get(pk=cart.order.pk).lines.all()
    assert [line.tax_rate for line in lines] == [Decimal("7.5")] * 2
