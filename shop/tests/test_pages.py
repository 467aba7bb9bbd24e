"""The pages without a browser: their contents, forms, languages and queries."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache
from django.db import OperationalError
from django.http import Http404
from django.test import Client

from inventory.outcomes import MAX_LINES
from shop import orders
from shop.catalogue.models import Sale
from shop.orders.models import Order
from shop.pages.sales import SALES_PER_PAGE
from shop.tests.catalogue import (
    PASSWORD,
    a_buyer,
    a_sale,
    a_sold_out_sale,
    an_ended_sale,
    an_order,
    an_upcoming_sale,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_kept():
    cache.clear()


def key_on(text: str) -> str:
    found = re.search(r'name="key" value="([^"]+)"', text)
    assert found is not None
    return found[1]


def buy_by_form(browser, sale, **different):
    form = {"key": str(uuid4()), "quantity": "1", **different}
    return browser.post(sale.get_absolute_url(), form)


def test_home_page_of_an_empty_shop_says_so(client):
    assert "There are no sales at the moment. Please check back soon." in client.get("/").text


@pytest.mark.parametrize("page", ["", "?page=2", "?page=999999"])
def test_home_page_queries_do_not_grow_with_the_sales(page, client, django_assert_num_queries):
    for _ in range(SALES_PER_PAGE):
        a_sale()
        an_ended_sale()
    with django_assert_num_queries(3):
        client.get(f"/{page}")


def test_sale_page_costs_one_query(client, django_assert_num_queries):
    sale = a_sale()
    with django_assert_num_queries(1):
        client.get(sale.get_absolute_url())


def test_home_page_is_cached_for_a_second_per_language(client, monkeypatch):
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)
    first = a_sale()
    assert "On sale now" in client.get("/").text
    second = a_sale()
    text = client.get("/").text
    assert f'data-sale="{first.pk}"' in text
    assert f'data-sale="{second.pk}"' not in text
    chinese = client.get("/", headers={"Accept-Language": "zh"}).text
    assert "抢购中" in chinese
    assert f'data-sale="{second.pk}"' in chinese
    now += 1.1
    assert f'data-sale="{second.pk}"' in client.get("/").text


def sales_on(text):
    return [int(sale) for sale in re.findall(r'data-sale="(\d+)"', text)]


def test_home_page_shows_an_open_sale_before_upcoming_ones(client):
    open_now = a_sale()
    upcoming = [an_upcoming_sale(3600 + place) for place in range(SALES_PER_PAGE)]
    first, second = sales_on(client.get("/").text), sales_on(client.get("/?page=2").text)
    assert first + second == [open_now.pk, *(sale.pk for sale in upcoming)]
    assert len(first) == SALES_PER_PAGE


def test_home_page_orders_sales_by_their_state(client):
    past = [a_sale(starts_in=timedelta(days=-9), lasts=timedelta(days=days)) for days in (8, 3)]
    sold_out = a_sold_out_sale()
    later, sooner = an_upcoming_sale(7200), an_upcoming_sale(3600)
    older = a_sale(starts_in=timedelta(hours=-2))
    paused, newest = a_sale(paused=True, starts_in=timedelta(hours=-1)), a_sale()
    wanted = [newest, paused, older, sooner, later, sold_out, *past]
    assert sales_on(client.get("/").text) == [sale.pk for sale in wanted]


def test_home_page_has_other_sales_on_each_page(client):
    wanted = [a_sale() for _ in range(SALES_PER_PAGE + 5)][::-1]
    wanted += [an_ended_sale() for _ in range(SALES_PER_PAGE)][::-1]
    pages = [client.get(f"/?page={number}").text for number in (1, 2, 3)]
    assert [sale for page in pages for sale in sales_on(page)] == [sale.pk for sale in wanted]
    assert ['rel="prev"' in page for page in pages] == [False, True, True]
    assert ['rel="next"' in page for page in pages] == [True, True, False]
    assert "Page 2 of 3" in pages[1]
    assert "第 2 页，共 3 页" in client.get("/?page=2", headers={"Accept-Language": "zh"}).text


@pytest.mark.parametrize(
    ("number", "sales"),
    [
        ("0", SALES_PER_PAGE),
        ("-3", SALES_PER_PAGE),
        ("x", SALES_PER_PAGE),
        ("", SALES_PER_PAGE),
        ("1.5", SALES_PER_PAGE),
        ("9" * 5000, SALES_PER_PAGE),
        ("3", 1),
        ("9" * 30, 1),
    ],
)
def test_home_page_with_a_bad_number_shows_the_first_or_last(client, number, sales):
    for _ in range(SALES_PER_PAGE + 1):
        a_sale()
    answer = client.get("/", {"page": number})
    assert (answer.status_code, len(sales_on(answer.text))) == (200, sales)


def test_sale_that_is_unlisted_is_sold_by_its_address_only(client, browser):
    sale = a_sale(listed=False)
    assert sales_on(client.get("/").text) == []
    assert buy_by_form(browser, sale).url.startswith("/orders/")


def test_visitor_signs_in_and_comes_back_to_the_sale(client):
    sale, buyer = a_sale(), a_buyer(PASSWORD)
    answer = buy_by_form(client, sale)
    assert answer.headers["Location"] == f"/sign-in/?next={sale.get_absolute_url()}"
    form = {"username": buyer.username, "password": PASSWORD}
    signed_in = client.post(answer.headers["Location"], form)
    assert signed_in.headers["Location"] == sale.get_absolute_url()
    assert not Order.objects.exists()


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"key": "nonsense"}, 400),
        ({"key": ""}, 400),
        ({"quantity": "0"}, 422),
        ({"quantity": "-1"}, 422),
        ({"quantity": "1000000000000"}, 422),
        ({"quantity": "one"}, 422),
    ],
)
def test_form_that_was_tampered_with_orders_nothing(browser, form, status):
    answer = buy_by_form(browser, a_sale(), **form)
    assert answer.status_code == status
    assert UUID(key_on(answer.text))
    assert not Order.objects.exists()


def test_sale_that_does_not_exist_is_not_found(browser):
    form = {"key": str(uuid4()), "quantity": "1"}
    for path in ("/sales/0/", "/sales/999999999/", f"/sales/{10**30}/"):
        assert browser.get(path).status_code == browser.post(path, form).status_code == 404
    assert browser.post("/cart/999999/", form).status_code == 404


@pytest.mark.parametrize(
    ("error", "status", "heading"),
    [
        (Http404(), 404, "This page does not exist"),
        (OperationalError("away"), 503, "The shop is overloaded"),
        (RuntimeError("bug"), 500, "Something went wrong on our side"),
    ],
)
def test_error_page_needs_no_database(error, status, heading, buyer, monkeypatch):
    def fail(number):
        raise error

    monkeypatch.setattr("shop.pages.sales.shelves", fail)
    client = Client(raise_request_exception=False)
    client.force_login(buyer)
    answer = client.get("/")
    assert answer.status_code == status
    assert heading in answer.text
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_form_key_is_not_restored_by_a_reload(browser, buyer):
    sale = a_sale(limit=2)
    order = an_order(sale, buyer, quantity=2)
    for address in (sale.get_absolute_url(), order.get_absolute_url()):
        keys = re.findall(r'<input[^>]*name="key"[^>]*>', browser.get(address).text)
        assert keys
        assert all('autocomplete="off"' in key for key in keys)


def test_cart_can_be_filled_before_signing_in_but_not_bought(client):
    answer = client.post(f"/cart/{a_sale().pk}/", {"quantity": 1}, follow=True)
    assert "Sign in to buy" in answer.text
    assert client.post("/cart/", {"key": "x"}).url.startswith("/sign-in/?next=/cart/")


def test_cart_takes_at_most_twenty_sales(browser):
    first, *others = [a_sale() for _ in range(MAX_LINES + 1)]
    for sale in others:
        browser.post(f"/cart/{sale.pk}/", {"quantity": 1})
    full = browser.post(f"/cart/{first.pk}/", {"quantity": 1}, follow=True)
    assert "A cart must contain 1 to 20 lines" in full.text
    changed = browser.post(f"/cart/{sale.pk}/", {"quantity": 2}, follow=True)
    assert "A cart must contain" not in changed.text
    assert len(browser.session["cart"]) == MAX_LINES


REMOVED = "no longer offered, so we removed it"


def fill_cart(browser, *sales):
    for sale in sales:
        browser.post(f"/cart/{sale.pk}/", {"quantity": 1})


def test_cart_loses_a_deleted_sale_and_can_be_bought(browser):
    stays, gone = a_sale(), a_sale()
    fill_cart(browser, stays, gone)
    gone.delete()
    page = browser.get("/cart/").text
    assert REMOVED in page
    assert REMOVED not in browser.get("/cart/").text
    assert list(browser.session["cart"]) == [str(stays.pk)]
    browser.post("/cart/", {"key": key_on(page), f"{stays.pk}-quantity": 1})
    [line] = Order.objects.get().lines.all()
    assert line.sale == stays


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_cart_whose_sale_is_deleted_at_the_click_is_shown_again(browser, language):
    stays, gone = a_sale(), a_sale()
    fill_cart(browser, stays, gone)
    browser.cookies["django_language"] = language
    quantities = {f"{sale.pk}-quantity": 1 for sale in (stays, gone)}
    key = key_on(browser.get("/cart/").text)
    gone.delete()
    shown = browser.post("/cart/", {"key": key, **quantities}, follow=True).text
    assert (REMOVED if language == "en" else "购物车中有商品已下架，我们已将其移除。") in shown
    assert not Order.objects.exists()


def test_cart_with_a_deleted_sale_takes_another_one(browser):
    gone, added = a_sale(), a_sale(currency="EUR")
    fill_cart(browser, gone)
    gone.delete()
    fill_cart(browser, added)
    assert list(browser.session["cart"]) == [str(added.pk)]


def test_cart_keeps_one_currency_when_a_sale_changes_its_own(browser):
    stays, changed = a_sale(), a_sale()
    fill_cart(browser, stays, changed)
    Sale.objects.filter(pk=changed.pk).update(currency="EUR")
    assert REMOVED in browser.get("/cart/").text
    assert list(browser.session["cart"]) == [str(stays.pk)]


def test_session_of_a_deleted_buyer_is_a_visitors(browser, buyer):
    sale = a_sale()
    buyer.delete()
    assert "Sign in to buy" in browser.get(sale.get_absolute_url()).text
    assert buy_by_form(browser, sale).url.startswith("/sign-in/")


def test_language_no_longer_offered_becomes_the_default(client, settings):
    client.cookies["django_language"] = "zh-hans"
    settings.LANGUAGES = [("en", "English")]
    assert '<html lang="en">' in client.get("/").text


@pytest.mark.parametrize(
    ("wrote", "said"), [(False, "nothing was done"), (True, "not known yet whether that was done")]
)
def test_change_by_form_says_whether_it_may_be_done(wrote, said, browser, buyer, monkeypatch):
    order = an_order(a_sale(), buyer)
    cancel = orders.cancel

    def fail(order, part):
        if wrote:
            cancel(order, part)
        raise OperationalError

    monkeypatch.setattr(orders, "cancel", fail)
    page = browser.post(f"/orders/{order.pk}/cancel/", follow=True)
    assert (page.status_code, said in page.text) == (200, True)
