"""The pages of orders and accounts without a browser, and their languages."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from shop.accounts import tokens
from shop.accounts.models import User
from shop.catalogue.models import Product
from shop.orders.models import Order
from shop.pages.tests.forms import buy_by_form
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


# --- orders ----------------------------------------------------------------------------------


@pytest.fixture
def order(buyer):
    return an_order(a_sale(), buyer)


def change(browser, order, action):
    return browser.post(reverse(action, args=[order.pk]), follow=True)


def test_orders_are_changed_by_post_only(browser, order):
    for action in ("pay", "cancel", "refund"):
        assert browser.get(reverse(action, args=[order.pk])).status_code == 405


def test_my_orders_are_mine_the_newest_first_twenty_a_page(browser, buyer):
    sale = a_sale(stock=30, limit=25)
    mine = [an_order(sale, buyer).pk for _ in range(21)]
    other = an_order(sale)
    first, second = (browser.get(f"/orders/?page={n}").text for n in (1, 2))
    shown = re.compile(r'<th scope="row"><a href="/orders/(\d+)/">')
    assert [int(pk) for pk in shown.findall(first)] == mine[:0:-1]
    assert [int(pk) for pk in shown.findall(second)] == mine[:1]
    assert f"/orders/{other.pk}/" not in first + second


# --- accounts --------------------------------------------------------------------------------


def test_who_signs_up_is_signed_in_and_goes_on(client):
    sale = a_sale()
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD, "email": ""}
    answer = client.post(f"/sign-up/?next={sale.get_absolute_url()}", form)
    assert answer.headers["Location"] == sale.get_absolute_url()
    assert buy_by_form(client, sale).status_code == 302
    assert Order.objects.get().buyer == User.objects.get(username="new")


def test_signing_in_or_up_leads_nowhere_else(client):
    buyer = a_buyer(PASSWORD)
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/sign-up/?next=//evil.example/", form).headers["Location"] == "/"
    login = {"username": buyer.username, "password": PASSWORD}
    away = Client().post("/sign-in/?next=https://evil.example/", login)
    assert away.headers["Location"] == "/"


def test_a_wrong_password_is_said(client, buyer):
    answer = client.post("/sign-in/", {"username": buyer.username, "password": "wrong"})
    assert "errorlist" in answer.text


def test_signing_out_is_a_form(browser):
    assert browser.get("/sign-out/").status_code == 405
    assert browser.post("/sign-out/").headers["Location"] == "/"
    assert browser.get("/orders/").status_code == 302


def test_the_account_page_makes_a_token_when_asked_to(browser, buyer):
    assert 'id="token"' not in browser.get("/account/").text
    found = re.search(r'id="token"[^>]* value="([^"]+)"', browser.post("/account/").text)
    assert found is not None
    assert tokens.verify(found[1]) == buyer.pk


# --- languages -------------------------------------------------------------------------------


def test_the_language_follows_the_browser_and_the_switch(client):
    address = a_sale().get_absolute_url()
    chinese = client.get(address, headers={"Accept-Language": "zh-CN,zh;q=0.9"})
    assert '<html lang="zh-hans">' in chinese.text
    assert "每人限购" in chinese.text
    assert '<html lang="en">' in client.get(address).text
    answer = client.post("/language/", {"language": "zh-hans", "next": address})
    assert answer.headers["Location"] == address
    assert '<html lang="zh-hans">' in client.get(address).text


def test_a_product_is_named_in_the_pages_language_if_it_has_such_a_name(client):
    address = a_sale().get_absolute_url()
    chinese = {"Accept-Language": "zh"}
    assert "<h1>Phone</h1>" in client.get(address, headers=chinese).text
    Product.objects.update(name_zh="手机", description_zh="只有十台")
    shown = client.get(address, headers=chinese).text
    assert "<h1>手机</h1>" in shown
    assert "只有十台" in shown
    assert "<h1>Phone</h1>" in client.get(address).text
