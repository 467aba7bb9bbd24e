"""axe-core's rules over every page: nothing serious, light and dark.

axe says of each finding how much it hinders people; what it calls minor or moderate is left to
judgement.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from course.tests.conftest import dropped_leases
from lab.room.tests.conftest import chromium, open_page, room, serve_room
from shop.accounts.models import User
from shop.orders.models import Order
from shop.tests.catalogue import a_sale, a_sold_out_sale, an_ended_sale, an_order, an_upcoming_sale

__all__ = ["chromium", "dropped_leases", "open_page", "room", "serve_room"]

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.django_db(transaction=True)]

SERIOUS = {"serious", "critical"}
SHOW = ["/stage/", "/room/", "/duel/", "/locks/", "/locks/setnx-expire/crash/"]


def findings(page: Page) -> Iterator[str]:
    """Yield what is serious on a page, in both colour schemes."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for each in Axe().run(page).response["violations"]:
            if each["impact"] in SERIOUS:
                where = [node["html"] for node in each["nodes"]]
                yield f"{page.url} ({scheme}): {each['id']}, {each['help']}: {where}"


def found_on(page: Page, paths: list[str]) -> list[str]:
    found: list[str] = []
    origin = page.url.split("/", 3)[:3]
    for path in paths:
        page.goto("/".join(origin) + path)
        found += findings(page)
    return found


def test_the_rules_are_run_at_all(open_page):
    page = open_page("/")
    page.set_content("<html><body><main><input><button></button></main></body></html>")
    rules = {finding.split(": ")[1].partition(",")[0] for finding in findings(page)}
    assert {"label", "button-name"} <= rules


def test_the_buyers_pages_hinder_nobody(open_page):
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
@pytest.mark.parametrize("language", ["en", "zh-Hans"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_every_page_of_the_show_fits_its_screen_and_hinders_nobody(
    open_page, width, height, language
):
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
