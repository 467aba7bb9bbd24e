"""The forms of the shop's pages: sent twice, from an old page, or about another buyer's order."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest
from django.urls import reverse

from inventory.models import Reservation
from shop.background import tasks
from shop.checkout import limiter
from shop.conftest import Buyer
from shop.orders.models import Order
from shop.payments import pay
from shop.tests.catalogue import a_sale, an_order, mail
from shop.tests.test_pages import key_on

pytestmark = pytest.mark.django_db(transaction=True)


def put_into_cart(browser, sale, quantity):
    browser.post(reverse("cart-line", args=[sale.pk]), {"quantity": str(quantity)})


def cart_form(browser):
    """Return the fields of the cart's form as its page shows them."""
    text = browser.get(reverse("cart")).text
    fields = re.findall(r'name="(\d+-quantity)" value="(\d+)"', text)
    return {"key": key_on(text), **dict(fields)}


def test_sale_form_sent_twice_buys_once(browser, buyer):
    sale = a_sale(limit=3)
    form = {"key": key_on(browser.get(sale.get_absolute_url()).text), "quantity": "2"}
    answers = [browser.post(sale.get_absolute_url(), form) for _ in range(2)]
    order = Order.objects.get(buyer=buyer)
    assert [answer["Location"] for answer in answers] == [order.get_absolute_url()] * 2
    assert order.lines.get().quantity == 2


def test_cart_form_sent_twice_buys_all_lines_once(browser, buyer):
    first, second = a_sale(limit=3), a_sale(limit=3)
    put_into_cart(browser, first, 2)
    put_into_cart(browser, second, 1)
    form = cart_form(browser)
    answers = [browser.post(reverse("cart"), form) for _ in range(2)]
    order = Order.objects.get(buyer=buyer)
    assert [answer["Location"] for answer in answers] == [order.get_absolute_url()] * 2
    bought = {line.sale_id: line.quantity for line in order.lines.all()}
    assert bought == {first.pk: 2, second.pk: 1}


def test_cart_changed_in_another_tab_is_not_bought(browser, buyer):
    first, second = a_sale(limit=3), a_sale(limit=3)
    put_into_cart(browser, first, 1)
    old = cart_form(browser)
    put_into_cart(browser, second, 1)
    browser.post(reverse("cart"), old)
    assert not Order.objects.filter(buyer=buyer).exists()


def test_cart_with_a_sold_out_line_buys_nothing_and_keeps_it(browser, buyer):
    first, second = a_sale(limit=3), a_sale(stock=1)
    put_into_cart(browser, first, 1)
    put_into_cart(browser, second, 1)
    form = cart_form(browser)
    an_order(second)
    page = browser.post(reverse("cart"), form).text
    assert not Order.objects.filter(buyer=buyer).exists()
    assert re.search(rf'<tr[^>]*class="refused"[^>]*data-line="{second.pk}"', page) or re.search(
        rf'<tr[^>]*data-line="{second.pk}"[^>]*class="refused"', page
    )
    kept = {f"{first.pk}-quantity", f"{second.pk}-quantity"}
    assert kept <= cart_form(browser).keys()


def test_part_form_sent_twice_gives_one_part_back(browser, buyer):
    order = an_order(a_sale(limit=3), buyer, 3)
    pay(order)
    where = order.get_absolute_url()
    part = {"sale": order.lines.get().sale_id, "quantity": "1"}
    form = {"key": key_on(browser.get(where).text), **part}
    for _ in range(2):
        assert browser.post(reverse("refund", args=[order.pk]), form)["Location"] == where
    assert Reservation.objects.get(orderline__order=order).returned == 1
    order.refresh_from_db()
    assert order.refunded == order.lines.get().price


def test_order_forms_pay_and_cancel(browser, buyer):
    first, second = an_order(a_sale(), buyer), an_order(a_sale(), buyer)
    browser.post(reverse("pay", args=[first.pk]))
    browser.post(reverse("cancel", args=[second.pk]))
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.status) == (Order.Status.PAID, Order.Status.CANCELLED)


def test_order_of_another_buyer_is_not_found(browser):
    order = an_order(a_sale())
    assert browser.get(order.get_absolute_url()).status_code == 404
    for name in ("pay", "cancel", "refund"):
        assert browser.post(reverse(name, args=[order.pk])).status_code == 404
    order.refresh_from_db()
    assert order.status == Order.Status.AWAITING_PAYMENT


def test_cart_by_the_api_counts_for_the_rate_limit(settings, monkeypatch):
    settings.SHOP_RATE_LIMIT = 1
    limiter.cache_clear()
    still = SimpleNamespace(**{**vars(time), "monotonic": lambda: 0.0})
    monkeypatch.setattr("shop.checkout.time", still)
    sale, ann = a_sale(limit=9), Buyer("ann")
    lines = {"lines": [{"sale": sale.pk, "quantity": 1}]}
    codes = []
    for number in range(3):
        key = f"00000000-0000-4000-8000-{number:012}"
        codes.append(ann.call("POST", "orders", lines, idempotency_key=key).status_code)
    limiter.cache_clear()
    assert codes == [201, 201, 429]


def test_mail_names_order_amount_and_page_in_both_parts(mailoutbox):
    order = an_order(a_sale())
    tasks.follow_up()
    tasks.send_mails()
    [sent] = mailoutbox
    [(html, _)] = sent.alternatives
    for part in (sent.body, html):
        assert str(order.pk) in part
        assert order.get_absolute_url() in part
        assert "999" in part
    assert mail(order).get().done is not None
