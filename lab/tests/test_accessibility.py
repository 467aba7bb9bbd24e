"""axe-core's rules over every page: nothing serious, light and dark.

axe says of each finding how much it hinders users; what it calls minor or moderate is left to
judgement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db.models.functions import Now
from django.urls import reverse
from playwright.sync_api import Page, expect

from course.tests.conftest import dropped_leases
from development.psp import checkout
from development.psp.books import Behaviour, Books
from lab.room.tests.conftest import chromium, open_page, room, serve_room
from shop import payments
from shop.accounts.models import User
from shop.orders.models import Order
from shop.payments.models import Payment
from shop.tests.catalogue import a_sale, a_sold_out_sale, an_ended_sale, an_order, an_upcoming_sale

__all__ = ["chromium", "dropped_leases", "open_page", "room", "serve_room"]

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.django_db(transaction=True)]

SERIOUS = {"serious", "critical"}
SHOW = ["/stage/", "/room/", "/duel/", "/locks/", "/locks/setnx-expire/crash/"]


Scheme = Literal["light", "dark"]
BOTH: tuple[Scheme, ...] = ("light", "dark")


def findings(page: Page, schemes: Sequence[Scheme] = BOTH) -> Iterator[str]:
    """Yield what is serious on a page, in these colour schemes."""
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        # What it loads again by itself, such as imported stylesheets, the pages' policy forbids.
        for violation in Axe().run(page, options={"preload": False}).response["violations"]:
            if violation["impact"] in SERIOUS:
                where = [node["html"] for node in violation["nodes"]]
                yield f"{page.url} ({scheme}): {violation['id']}, {violation['help']}: {where}"


def found_on(page: Page, paths: list[str], schemes: Sequence[Scheme] = BOTH) -> list[str]:
    found: list[str] = []
    origin = page.url.split("/", 3)[:3]
    for path in paths:
        answer = page.goto("/".join(origin) + path)
        assert answer is not None
        assert answer.ok, path
        found += findings(page, schemes)
    return found


def test_accessibility_rules_find_a_planted_fault(open_page):
    page = open_page("/")
    page.set_content("<html><body><main><input><button></button></main></body></html>")
    rules = {finding.split(": ")[1].partition(",")[0] for finding in findings(page)}
    assert {"label", "button-name"} <= rules


def test_shop_pages_are_accessible(open_page):
    sale = a_sale(limit=5)
    closed = [a_sold_out_sale(), an_upcoming_sale(), an_ended_sale()]
    buyer = User.objects.get(username="presenter")
    page = open_page("/")
    order = an_order(sale, buyer)
    pages = [each.get_absolute_url() for each in (sale, *closed)]
    pages += ["/", "/cart/", "/orders/", f"/orders/{order.pk}/", "/account/"]
    assert found_on(page, pages) == []
    page.goto(page.url.replace("/account/", sale.get_absolute_url()))
    page.locator("[data-buy]").click()
    page.wait_for_url("**/orders/*/")
    page.get_by_role("button", name="Pay").click()
    expect(page.get_by_text("Payment received")).to_be_visible()
    assert list(findings(page)) == []
    assert Order.objects.filter(buyer=buyer, status=Order.Status.PAID).count() == 1
    page.context.clear_cookies()
    visitors = ["/sign-in/", "/sign-up/", "/password-reset/", sale.get_absolute_url()]
    assert found_on(page, visitors) == []


def show_code(order: Order) -> None:
    """Let a payment of an order wait for its buyer, who is shown a QR code."""
    Payment.objects.create(
        order=order,
        key=f"key-{order.pk}",
        intent=f"pi_{order.pk}",
        amount=order.amount,
        action={"kind": "qr", "data": "code", "expires": order.pay_before.isoformat()},
        waits_for_buyer=True,
        not_before=Now(),
    )


ACTS_ON_PAID = ("refund", "goodwill", "refund-by-hand", "lost-dispute", "mail")

SCREENS = [(1280, 800), (390, 844)]
LANGUAGES = ["en", "zh-Hans"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_pages_of_orders_hinder_nobody_on_any_screen(
    open_page, fake_provider, width, height, language
):
    """The buyer's and the operator's, light only: the stylesheet is the same."""
    sale, buyer = a_sale(limit=5), User.objects.get(username="presenter")
    page = open_page("/", viewport={"width": width, "height": height}, locale=language)
    unpaid, asked, bought = (an_order(sale, buyer) for _ in range(3))
    payments.pay(bought)
    show_code(asked)
    buyers = ["/", sale.get_absolute_url(), "/cart/", "/orders/", "/account/"]
    buyers += [order.get_absolute_url() for order in (unpaid, asked, bought)]
    buyers.append(f"/orders/{asked.pk}/payment/")
    lists = ("shop_order", "shop_sale", "shop_refund", "shop_discrepancy", "inventory_item")
    operators = ["/admin/", *(reverse(f"admin:{name}_changelist") for name in lists)]
    operators.append(reverse("admin:shop_sale_new"))
    rows = [
        (unpaid.pk, ["shop_order_cancel", "shop_order_hold"]),
        (bought.pk, [f"shop_order_{name}" for name in (*ACTS_ON_PAID, "change")]),
        (sale.pk, ["shop_sale_change", "shop_sale_stop"]),
        (sale.item_id, ["inventory_item_correct", "inventory_item_change"]),
        (buyer.pk, ["accounts_user_erase"]),
    ]
    operators += [reverse(f"admin:{name}", args=[pk]) for pk, names in rows for name in names]
    assert found_on(page, buyers + operators, ["light"]) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_page_of_the_demos_provider_hinders_nobody(chromium, width, height, language):
    books = Books(":memory:", Behaviour())
    books.create(7, 99_900, "CNY", "key", "http://127.0.0.1:9/orders/7/")
    [intent] = books.latest(1)
    environ = {"REQUEST_METHOD": "GET", "HTTP_ACCEPT_LANGUAGE": language}
    shown = checkout.respond(books, environ, intent["id"]).body.decode()
    page = chromium.new_page(viewport={"width": width, "height": height})
    page.set_content(shown)
    assert list(findings(page)) == []
    page.close()


BEYOND = """
() => [...document.querySelectorAll("main :is(a, button, input, select, h1, h2, figure, canvas)")]
  .filter((each) => each.checkVisibility() && !each.closest(".table, pre, .unseen"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 200))
"""
"""What a visitor would have to scroll sideways for."""

UNREACHABLE = """
() => [...document.querySelectorAll("main :is(a[href], button, input, select, summary)")]
  .filter((each) => each.checkVisibility() && !each.disabled && each.tabIndex < 0)
  .map((each) => each.outerHTML.slice(0, 200))
"""


@pytest.mark.usefixtures("dropped_leases")
@pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_show_pages_fit_the_screen_and_are_accessible(open_page, width, height, language):
    a_sale()
    size = {"width": width, "height": height}
    page = open_page("/stage/", viewport=size, locale=language)
    origin = page.url.removesuffix("/stage/")
    for path in SHOW:
        page.goto(origin + path)
        page.wait_for_load_state("load")
        if path == "/duel/":
            expect(page.get_by_role("slider")).to_be_visible()
        assert page.locator("html").get_attribute("lang") == language.lower(), path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(BEYOND) == [], path
        assert page.evaluate(UNREACHABLE) == [], path
        if language == "en" and width == 1280:
            assert list(findings(page)) == []
