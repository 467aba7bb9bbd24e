"""The control room and the duel in a real browser, as a presenter meets them."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from inventory.models import Item
from lab.models import UnenforcedItem
from lab.strategies.choice import choose
from loadtest.faults.ports import free_port
from shop.checkout.purchase import buy
from shop.tests.catalogue import a_buyer, a_sale

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.django_db(transaction=True)]

NAMELESS = """
() => [...document.querySelectorAll("main :is(input, select, button, a, svg[role=img])")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.getAttribute("aria-label") || each.labels?.[0]?.textContent.trim()
                      || each.textContent.trim()))
  .map((each) => each.outerHTML)
"""
"""Controls without a name that a screen reader could say."""

PALE = """
() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255)
      .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (each) => {
    const found = each && getComputedStyle(each).backgroundColor;
    if (!each) return "rgb(255, 255, 255)";
    return /^rgba\\(.*, 0\\)$/.test(found) ? ground(each.parentElement) : found;
  };
  return [...document.querySelectorAll("main *")]
    .filter((each) => !each.closest("svg") && each.checkVisibility() && !each.disabled)
    .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .map((each) => [light(getComputedStyle(each).color), light(ground(each)), each.outerHTML])
    .filter(([one, two]) => (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05) < 4.5)
    .map(([, , html]) => html);
}
"""
"""Texts whose contrast is below 4.5 : 1 (WCAG 2.2, 1.4.3)."""


def figure(page: Page, name: str, within: str = "main"):
    return page.locator(f"{within} [data-name={name}] strong")


def assert_accessible(page: Page) -> None:
    assert page.evaluate(NAMELESS) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(PALE) == []


def test_the_room_shows_a_sale_its_buttons_work_and_an_oversell_is_red(open_page, settings):
    sale = a_sale(stock=10, limit=5)
    page = open_page("/room/")
    expect(figure(page, "available")).to_have_text("10")
    buy(sale.pk, a_buyer().pk, uuid4(), 3)
    expect(figure(page, "held")).to_have_text("3")
    expect(page.get_by_text("The books balance")).to_be_visible()
    expect(page.locator("svg")).to_contain_text("7 of 10 left")
    page.get_by_role("button", name="Add 100 units").focus()
    page.keyboard.press("Enter")
    expect(figure(page, "available")).to_have_text("107")
    expect(page.get_by_role("log")).to_contain_text(f"Sale {sale.pk}: 100 units added")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_label("Strategy").last.select_option("guard")
    expect(page.locator("svg")).to_contain_text("guard does not use the lock")
    assert page.locator("canvas").count() == 4
    there = settings.REDIS_URL
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    expect(page.get_by_text("Redis does not answer")).to_be_visible()
    settings.REDIS_URL = there
    expect(page.get_by_text("Redis answers again")).to_be_visible()
    UnenforcedItem.add(sale.item_id)
    Item.objects.filter(pk=sale.item_id).update(total=2, available=0)
    expect(page.locator("[data-verdict]")).to_have_text("Oversold by 1")
    expect(page.locator("[data-verdict]")).to_have_attribute("data-is", "bad")
    assert_accessible(page)


def test_the_duel_shows_both_sales_with_a_red_bar_a_verdict_and_a_report_each(
    open_page, room, monkeypatch
):
    naive, safe = a_sale(stock=10), a_sale(stock=10)
    choose(naive, "naive")
    page = open_page("/duel/")
    sides = [{"strategy": "naive", "sale": naive.pk}, {"strategy": "combining", "sale": safe.pk}]
    duel = {"run": 1, "going": True, "sides": sides}
    room.room.watch((naive.pk, safe.pk))
    room.room.show("duel", duel)
    buy(naive.pk, a_buyer().pk, uuid4(), 1)
    UnenforcedItem.add(naive.item_id)
    Item.objects.filter(pk=naive.item_id).update(total=0, available=0)
    expect(figure(page, "oversold", "[data-side='0']")).to_have_text("1")
    expect(figure(page, "oversold", "[data-side='1']")).to_have_text("0")
    bars = page.locator(".bar-over")
    assert bars.nth(0).bounding_box()["width"] > 0
    assert bars.nth(1).bounding_box()["width"] == 0
    ends = [
        {"outcome": "fail", "oversold": 1, "report": "1/first"},
        {"outcome": "pass", "oversold": 0, "report": "1/second"},
    ]
    done = [{**side, **end} for side, end in zip(sides, ends, strict=True)]
    room.room.show("duel", {**duel, "going": False, "sides": done})
    verdicts = page.locator("[data-verdict]")
    expect(verdicts.nth(0)).to_have_text("Broken. Oversold by 1")
    expect(verdicts.nth(1)).to_have_text("Proved: nothing oversold, lost or doubled")
    links = page.get_by_role("link", name="The report")
    expect(links).to_have_count(2)
    assert re.search(r":\d+/reports/1/second\?token=", str(links.nth(1).get_attribute("href")))
    assert_accessible(page)
