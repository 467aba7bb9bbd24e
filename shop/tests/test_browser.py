"""The pages in a real browser, with and without JavaScript."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db.models.functions import Now
from playwright.sync_api import Browser, Page, expect, sync_playwright

from development.needs import Need, find, require
from inventory.models import Item
from inventory.services import restock
from shop.catalogue.models import Sale
from shop.orders.models import Order
from shop.pages.docs import description
from shop.tests.catalogue import a_sale, a_sold_out_sale, an_order, an_upcoming_sale

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.django_db(transaction=True)]


NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 60_000
"""Milliseconds that anything may take."""
CHROMIUM = Need("Chromium", "apt-get install chromium", lambda: any(map(find, NAMES)))


@contextmanager
def chromium_started() -> Iterator[Browser]:
    """Run it inside the block."""
    require(CHROMIUM)
    path = next(filter(None, map(find, NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        expect.set_options(timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    # Playwright runs an event loop in this thread, and Django then takes the tests' own queries
    # for ones of asynchronous code.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with chromium_started() as browser:
        yield browser
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def open_page(chromium, live_server, client, buyer):
    """Open pages as the buyer; the browser's complaints fail the test."""
    cache.clear()
    client.force_login(buyer)
    contexts, complaints = [], []

    def open_page(path: str, *, javascript: bool = True, language: str = "en") -> Page:
        context = chromium.new_context(java_script_enabled=javascript, locale=language)
        contexts.append(context)
        session = client.cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        context.set_default_timeout(PATIENCE)
        page: Page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complain(message.text))
        page.on("request", lambda request: outside(request.url))
        page.goto(f"{live_server.url}{path}")
        return page

    def complain(text: str) -> None:
        # Chromium reports a refused purchase, whose page has the refusal's status.
        if "status of 409" not in text:
            complaints.append(text)

    def outside(address: str) -> None:
        if not address.startswith((live_server.url, "data:", "blob:")):
            complaints.append(f"requested elsewhere: {address}")

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def buy_button(page: Page):
    return page.locator("[data-buy]")


def wait_for_order(page: Page) -> Order:
    page.wait_for_url("**/orders/*/")
    return Order.objects.get(pk=page.url.rstrip("/").rpartition("/")[2])


@pytest.mark.parametrize("javascript", [True, False])
def test_buyer_buys_pays_and_returns(open_page, buyer, javascript):
    page = open_page(a_sale().get_absolute_url(), javascript=javascript)
    buy_button(page).click()
    order = wait_for_order(page)
    assert order.buyer == buyer
    page.get_by_role("button", name="Pay CN¥999.00").click()
    expect(page.get_by_text("Payment received. Thank you for your purchase!")).to_be_visible()
    page.get_by_role("button", name="Return for a refund").click()
    page.get_by_role("button", name="Yes, return").click()
    expect(page.get_by_text("Your payment for this order has been refunded.")).to_be_visible()
    order.refresh_from_db()
    assert order.status == Order.Status.REFUNDED
    assert Item.objects.get(pk=order.lines.get().sale.item_id).available == 10


@pytest.mark.parametrize("javascript", [True, False])
def test_countdown_to_the_payment_needs_a_script(open_page, javascript):
    sale = a_sale()
    page = open_page(sale.get_absolute_url(), javascript=javascript)
    expect(page.get_by_text("Ends in", exact=True)).to_be_visible(visible=javascript)
    buy_button(page).click()
    wait_for_order(page)
    expect(page.get_by_text("Time left to pay")).to_be_visible(visible=javascript)


@pytest.mark.parametrize("javascript", [True, False])
def test_double_click_is_one_order(open_page, buyer, javascript):
    page = open_page(a_sale(limit=5).get_absolute_url(), javascript=javascript)
    buy_button(page).dblclick(no_wait_after=True)
    order = wait_for_order(page)
    assert list(Order.objects.filter(buyer=buyer)) == [order]


@pytest.mark.parametrize("javascript", [True, False])
def test_cart_takes_the_chosen_quantity(open_page, javascript):
    sale = a_sale(limit=3)
    page = open_page(sale.get_absolute_url(), javascript=javascript)
    page.get_by_label("Quantity").fill("2")
    page.get_by_role("button", name="Or add it to your cart").click()
    page.wait_for_url("**/cart/")
    expect(page.get_by_role("spinbutton")).to_have_value("2")


@pytest.mark.parametrize("javascript", [True, False])
def test_cart_is_bought_as_its_page_shows_it(open_page, javascript):
    page = open_page(a_sale(limit=4).get_absolute_url(), javascript=javascript)
    page.get_by_role("button", name="Or add it to your cart").click()
    page.get_by_role("spinbutton").fill("2")
    page.get_by_role("button", name="Update").click()
    page.get_by_role("spinbutton").fill("3")
    page.get_by_role("button", name="Buy all for CN¥1,998.00").click()
    expect(page.get_by_role("alert")).to_have_text(
        "Your cart has changed. Please check the total before you buy."
    )
    page.get_by_role("button", name="Buy all for CN¥2,997.00").click()
    assert wait_for_order(page).lines.get().quantity == 3


def test_buying_again_after_going_back_is_another_order(open_page, buyer):
    page = open_page(a_sale(limit=5).get_absolute_url())
    buy_button(page).click()
    first = wait_for_order(page)
    page.go_back()
    expect(buy_button(page)).to_be_enabled()
    buy_button(page).click()
    second = wait_for_order(page)
    assert first != second


def starts_soon() -> None:
    """Let the sale open in two seconds, however long its page took until now."""
    Sale.objects.update(starts_at=Now() + timedelta(seconds=2))


def test_countdown_opens_the_sale_without_a_reload(open_page):
    page = open_page(an_upcoming_sale(seconds=600).get_absolute_url())
    page.evaluate("window.same = true")
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"^(10:00|0[5-9]:\d\d)$"))
    expect(buy_button(page)).to_be_disabled()
    starts_soon()
    expect(buy_button(page)).to_be_enabled()
    expect(page.get_by_role("status")).to_have_text("The sale is open.")
    assert page.evaluate("window.same")
    buy_button(page).click()
    wait_for_order(page)


def test_countdown_follows_the_servers_clock(open_page):
    page = open_page(a_sale().get_absolute_url())
    page.context.add_init_script("Date.now = () => 0")
    sale = an_upcoming_sale(seconds=100)
    page.goto(page.url.rpartition("/sales/")[0] + sale.get_absolute_url())
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"^01:[0-4]\d$"))


def test_countdown_opens_the_sale_on_the_home_page(open_page):
    sale = an_upcoming_sale(seconds=2)
    page = open_page("/")
    card = page.locator(f"[data-sale='{sale.pk}']")
    expect(card).to_have_attribute("data-status", "open")
    expect(card.locator("[data-badge]")).to_have_text("On sale now")


def test_sale_page_without_javascript_opens_by_a_reload(open_page):
    page = open_page(an_upcoming_sale(seconds=600).get_absolute_url(), javascript=False)
    expect(buy_button(page)).to_be_disabled()
    starts_soon()
    page.reload()  # now it reloads by itself in two seconds
    expect(buy_button(page)).to_be_enabled()


def test_sale_page_shows_that_units_sell_out_and_come_back(open_page):
    sale = a_sale(stock=1)
    page = open_page(sale.get_absolute_url())
    an_order(sale)
    expect(buy_button(page)).to_have_text("All reserved, may come back")
    expect(buy_button(page)).to_be_disabled()
    expect(page.locator("[data-left]")).to_have_text("0 of 1 left")
    restock(sale.item_id, 1)
    expect(buy_button(page)).to_be_enabled()


def test_sale_page_offers_no_cart_while_the_sale_is_paused(open_page):
    sale = a_sale(paused=True)
    page = open_page(sale.get_absolute_url())
    to_cart = page.get_by_role("button", name="Or add it to your cart")
    expect(buy_button(page)).to_have_text("Paused")
    for paused in (False, True):
        Sale.objects.update(paused=paused)
        expect(to_cart).to_be_visible(visible=not paused)


def test_sale_page_invites_its_visitor_when_units_come_back(open_page):
    sale = a_sold_out_sale()
    page = open_page(sale.get_absolute_url())
    page.context.clear_cookies()
    page.reload()
    invitation = page.get_by_role("link", name="Sign in to buy")
    expect(invitation).to_be_hidden()
    restock(sale.item_id, 1)
    expect(invitation).to_be_visible()
    expect(page.get_by_role("button", name="Buy now")).to_have_count(0)


def test_refusal_is_read_out_on_the_page(open_page):
    sale = a_sold_out_sale()
    restock(sale.item_id, 1)
    page = open_page(sale.get_absolute_url(), javascript=False)
    an_order(sale)
    buy_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("There are not enough items left")


def test_order_page_shows_that_the_order_expires(open_page, buyer):
    sale = a_sale(hold=timedelta(seconds=3))
    page = open_page(an_order(sale, buyer).get_absolute_url())
    expired = page.get_by_text("This order was not paid in time")
    expect(expired).to_be_visible()
    expect(page.get_by_role("button", name="Pay")).to_have_count(0)


def test_language_is_switched_on_the_page(open_page):
    page = open_page(a_sale().get_absolute_url())
    page.get_by_role("button", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(buy_button(page)).to_have_text("立即抢购")


def test_api_documentation_shows_every_call_from_own_files(open_page):
    page = open_page("/api/docs")
    calls = sum(map(len, json.loads(description())["paths"].values()))
    expect(page.locator(".opblock")).to_have_count(calls)
    page.locator("#operations-Orders-placeOrder").click()
    expect(page.get_by_text("Idempotency-Key").first).to_be_visible()


def test_admin_works_under_the_content_security_policy(open_page, buyer):
    sale = a_sale()
    an_order(sale, buyer)
    buyer.is_staff = buyer.is_superuser = True
    buyer.save()
    page = open_page("/admin/")
    server = page.url.removesuffix("/admin/")
    for path in ("shop/sale/", f"shop/sale/{sale.pk}/change/", "inventory/outboxmessage/"):
        page.goto(f"{server}/admin/{path}")
        expect(page.locator("#content h1")).to_be_visible()
    page.goto(f"{server}/admin/shop/sale/{sale.pk}/change/")
    page.locator(".datetimeshortcuts a").first.click()  # made by a script of the admin


def sale_page(order):
    return order.lines.get().sale.get_absolute_url()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_pages_are_not_wider_than_the_screen(open_page, buyer, width):
    order = an_order(a_sale(), buyer)
    page = open_page("/")
    page.set_viewport_size({"width": width, "height": 700})
    server = page.url.rstrip("/")
    for path in ("/", sale_page(order), order.get_absolute_url(), "/orders/"):
        page.goto(server + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
