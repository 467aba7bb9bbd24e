"""The control room, the duel and the player in a real browser, as a presenter meets them."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from inventory.models import Item
from lab.models import UnenforcedItem
from lab.room.card import JUDGING, card_of
from lab.room.duel import RECORDING, SHIPPED, SIDES
from lab.room.room import curves
from lab.room.texts import TEXTS
from lab.tests.test_accessibility import findings
from loadtest.faults import FAULTS as KNOWN_FAULTS
from loadtest.faults import left_out
from loadtest.files import RunFolder
from loadtest.run_plan import RunPlan
from shop.checkout import buy
from shop.tests.catalogue import a_buyer, a_sale
from shop.tests.processes import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.django_db(transaction=True)]


def figure(page: Page, name: str):
    return page.locator(f"main [data-name={name}] strong")


def test_room_shows_a_sale_with_buttons_and_an_oversell(open_page):
    sale = a_sale(stock=10, limit=5)
    page = open_page("/room/")
    expect(figure(page, "available")).to_have_text("10")
    buy(sale.pk, a_buyer().pk, uuid4(), 3)
    expect(figure(page, "held")).to_have_text("3")
    expect(page.get_by_text("The books balance")).to_be_visible()
    expect(page.locator("[data-scene]")).to_contain_text("7 of 10 left")
    page.get_by_role("button", name="Add 100 units").focus()
    page.keyboard.press("Enter")
    expect(figure(page, "available")).to_have_text("107")
    expect(page.get_by_role("log")).to_contain_text(f"Sale {sale.pk}: 100 units added")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_label("Strategy").last.select_option("guard")
    expect(page.locator("[data-scene]")).to_contain_text("guard does not use the lock")
    assert page.locator("canvas").count() == 4
    UnenforcedItem.add(sale.item_id)
    Item.objects.filter(pk=sale.item_id).update(total=2, available=0)
    expect(page.locator("[data-verdict]")).to_have_text("Oversold by 1")
    expect(page.locator("[data-verdict]")).to_have_attribute("data-is", "bad")
    assert list(findings(page)) == []


def test_rush_can_be_started_once_the_page_is_connected(open_page):
    """Before, a press would reload the page, or be refused, and no rush would come."""
    page = open_page("/room/")
    start = page.locator(".rush-bar [data-start]")
    expect(start).to_be_enabled()
    asked: list[Route] = []
    page.route("**/room/token", lambda route: asked.append(route))
    page.reload()
    expect(start).to_be_disabled()
    for route in asked:
        route.continue_()
    expect(start).to_be_enabled()


BREAKABLE = list(TEXTS["faults"])[:15]
"""As many as a demo offers without proxies before its servers."""


def box(page: Page, selector: str, nth: int = 0) -> dict[str, float]:
    found = page.locator(selector).nth(nth).bounding_box()
    assert found is not None
    right, bottom = found["x"] + found["width"], found["y"] + found["height"]
    return {"top": found["y"], "right": right, "bottom": bottom}


@pytest.fixture
def a_room_with_faults(room, monkeypatch):
    missing = [
        {"fault": name, "lack": lack, "command": "make demo ARGS=--breakable"}
        for name, lack in left_out(KNOWN_FAULTS, frozenset()).items()
    ]
    monkeypatch.setattr(room.room, "offered", lambda: BREAKABLE)
    monkeypatch.setattr(room.room, "missing", lambda: missing)
    a_sale(stock=10)
    return room


def test_room_shows_all_of_the_show_at_once_on_a_projector(open_page, a_room_with_faults):
    page = open_page("/room/", viewport={"width": 1280, "height": 800})
    expect(page.get_by_role("button", name="fill Redis' memory")).to_be_visible()
    expect(figure(page, "available")).to_have_text("10")
    for selector in (
        "[data-start]",
        "[data-preset]",
        "[data-figures]",
        "[data-chart=stock]",
        "[data-chart=rates]",
        "[data-scene]",
        "[data-card]",
        "[data-faults]",
        "[data-events]",
    ):
        for nth in range(page.locator(selector).count()):
            found = box(page, selector, nth)
            assert found["right"] <= 1280, selector
            assert found["bottom"] <= 800, selector
    sizes = page.locator(".figure strong").evaluate_all(
        "all => all.map(each => parseFloat(getComputedStyle(each).fontSize))"
    )
    assert min(sizes) >= 18


def test_figures_begin_with_the_last_that_the_charts_show(
    open_page, a_room_with_faults, monkeypatch
):
    """Between two rushes nothing is measured, and a page that is opened then has no dashes."""
    seen = []

    def measured(frame):
        seen.append(frame)
        found = curves(frame)
        return found | {"rates": found["rates"] | {"p50": 12.0, "p99": 40.0}}

    monkeypatch.setattr("lab.room.room.curves", measured)
    wait_for(lambda: seen)
    page = open_page("/room/")
    expect(figure(page, "p50")).to_have_text("12")
    expect(figure(page, "p99")).to_have_text("40")
    expect(figure(page, "requests")).to_have_text("0")


def a_fault(name: str, phase: str = "acts", **more: object) -> dict[str, object]:
    now = time.time()
    return {"name": name, "phase": phase, "since": now, "until": now + 60, **more}


def places(page: Page) -> dict[str, list[float]]:
    """Return where each button is."""
    found: dict[str, list[float]] = page.locator("button:visible").evaluate_all(
        """all => Object.fromEntries(all.map(each => {
             const {x, y} = each.getBoundingClientRect();
             return [each.innerText, [x, y]];
           }))"""
    )
    return found


def test_fault_is_a_band_on_every_chart_once_it_acts(open_page, a_room_with_faults):
    page = open_page("/room/")
    room = a_room_with_faults.room
    expect(page.get_by_text("Break something while buyers are on their way.")).to_be_visible()
    room.show_fault(a_fault("holder-paused", "armed"))
    expect(page.locator("[data-expected]")).to_have_text(
        "Armed: it acts when a process gets the lock"
    )
    expect(page.locator("[data-chart=stock]")).to_have_attribute("data-bands", "")
    room.show_fault(a_fault("redis-killed"))
    for nth in range(4):
        chart = page.locator("[data-chart]").nth(nth)
        expect(chart).to_have_attribute("data-bands", "redis-killed")
    expect(page.locator("[data-band]").first).to_have_text("kill Redis")
    expect(page.get_by_role("status").filter(has_text="kill Redis.")).to_contain_text(
        "Sold without the lock: the guard decides"
    )
    expect(page.locator("[data-measured]")).to_contain_text("sold meanwhile: 0")
    room.show("fault", None)
    expect(page.locator("[data-heal]")).to_be_disabled()
    expect(page.locator("[data-band]").first).to_have_text("")
    page.reload()  # the last minute is sent again, with its faults
    expect(page.locator("[data-chart=rates]")).to_have_attribute("data-bands", "redis-killed")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_buttons_do_not_move_during_a_rush_and_a_fault(
    open_page, a_room_with_faults, width, height
):
    page = open_page("/room/", viewport={"width": width, "height": height})
    room = a_room_with_faults.room
    expect(figure(page, "available")).to_have_text("10")
    before = places(page)
    room.show("rush", {"sale": 1, "buyers": 500})
    expect(page.locator(".rush-bar [data-start]")).to_be_disabled()
    assert places(page) == before
    room.show_fault(a_fault("holder-paused", paused={"pid": "1", "token": 1234567}))
    expect(page.locator("[data-heal]")).to_be_enabled()
    assert places(page) == before
    room.show("fault", None)
    values = {"fault": "holder-paused", "seconds": 6.1, "accepted": 40, "stale": 1}
    paused = {"paused": {"pid": "1", "token": 1234567}, "fence": 1234999}
    room.show("fault_over", {"code": "healed", "values": {**values, **paused}})
    expect(page.locator("[data-scene]")).to_contain_text(
        "token …234567 refused: …234999 came later"
    )
    assert places(page) == before


def a_card(word: str, folder: Path, **more: int) -> dict[str, Any]:
    """Return the card of a rush, as its verdict says it."""
    figures = ("buyers", "got", "sold_out", "refused", "no_answer", "units", "taken", "oversold")
    verdict_document = {
        "verdict": word,
        "reason": "",
        "result": {**dict.fromkeys((*figures, "handovers"), 1100), **more},
        "check": {"look": "SELECT 7;", "again": "" if word == JUDGING else "judge it again"},
    }
    plan = RunPlan(buyers=1100, seed=1, stock=1100, sale="3")
    return card_of(RunFolder(folder / "1"), plan, verdict_document, word)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_buttons_do_not_move_when_the_verdict_arrives(
    open_page, a_room_with_faults, tmp_path, width, height, language
):
    page = open_page("/room/", viewport={"width": width, "height": height}, locale=language)
    room = a_room_with_faults.room
    room.show("card", a_card(JUDGING, tmp_path))
    links = page.locator("[data-result-links]")
    expect(links).to_be_visible()
    before = places(page)
    assert links.locator("button").inner_text() in before
    room.show("card", a_card("pass", tmp_path, rate=2800, p99=1200, faults=12))
    expect(page.locator("[data-result=faults] dd")).to_have_text("12")
    expect(page.locator("[data-card-report]")).to_be_visible()
    assert places(page) == before
    assert box(page, "[data-result=faults]")["bottom"] <= box(page, "[data-result-links]")["top"]
    assert box(page, "[data-result-links]")["bottom"] <= box(page, "[data-card]")["bottom"]


def test_card_shows_what_became_of_the_buyers(open_page, a_room_with_faults, tmp_path):
    page = open_page("/room/")
    a_room_with_faults.room.show("card", a_card("pass", tmp_path, got=50))
    result = page.locator("[data-card]")
    expect(result.locator("[data-result=got] dd")).to_have_text("50")
    expect(result.get_by_role("heading")).to_have_text("PROVED")
    assert list(findings(page)) == []
    page.get_by_role("button", name="Check it yourself").click()
    expect(page.get_by_role("dialog")).to_contain_text("SELECT 7;")
    expect(page.get_by_role("dialog")).to_contain_text("manage.py audit --sale 3")
    expect(page.get_by_role("dialog")).to_contain_text("judge it again")


def test_telephone_shows_figures_one_chart_and_faults(open_page, a_room_with_faults):
    page = open_page("/room/", viewport={"width": 390, "height": 844})
    expect(figure(page, "available")).to_have_text("10")
    expect(page.get_by_role("button", name="kill Redis", exact=True)).to_be_visible()
    assert page.locator("[data-chart]:visible").count() == 1
    tops = [box(page, name)["top"] for name in ("[data-figures]", "[data-chart]", "[data-faults]")]
    assert tops == sorted(tops)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(e => e.innerText)"
    assert page.locator(".figure").evaluate_all(cut) == []


def test_duel_plays_the_shipped_recording_first(open_page, room, tmp_path):
    page = open_page("/duel/", viewport={"width": 1280, "height": 800})
    verdicts = page.locator("[data-verdict]")
    expect(verdicts.nth(0)).to_contain_text("Broken · Oversold by")
    expect(verdicts.nth(1)).to_have_text("Proved: nothing oversold, lost or doubled")
    oversold = [page.locator(f"[data-side='{side}'] [data-figure=oversold]") for side in (0, 1)]
    expect(oversold[0]).not_to_have_attribute("data-bad", "")
    page.keyboard.press("Space")  # wherever the page has its focus
    expect(page.locator("[data-replay=play]")).to_contain_text("Pause")
    page.keyboard.press("v")  # to the moment at which the first unit too many was sold
    expect(page.locator(".replay-said")).to_contain_text("P1, no oversell, is broken")
    expect(oversold[0].locator("b")).to_have_text("1")
    expect(oversold[0]).to_have_attribute("data-bad", "")
    page.keyboard.press("End")
    expect(oversold[1].locator("b")).to_have_text("0")
    for selector in ("[data-figure]", ".replay-picture", ".replay-controls"):
        for nth in range(page.locator(f"{selector}:visible").count()):
            assert box(page, f"{selector}:visible", nth)["bottom"] <= 800, selector
    shipped = json.loads(SHIPPED.read_bytes())
    sides = [{"strategy": side["strategy"]} for side in shipped["sides"]]
    room.room.show(
        "duel", {"run": 1, "going": True, "sides": [{**sides[0], "phase": "x"}, sides[1]]}
    )
    expect(page.locator("[data-going]")).to_have_text("naive: x · combining: waits")
    expect(page.get_by_role("button", name="Start the duel")).to_be_disabled()
    folder = tmp_path / "duels" / "0001"
    folder.mkdir(parents=True)
    (folder / RECORDING).write_text(json.dumps({**shipped, "buyers": 77}))
    done = [{**each, "report": f"1/{name}"} for each, name in zip(sides, SIDES, strict=True)]
    room.room.show("duel", {"run": 1, "going": False, "sides": done})
    expect(page.locator("[data-recorded]")).to_contain_text("77 buyers")
    links = page.get_by_role("link", name="The report")
    expect(links).to_have_count(2)
    assert re.search(r":\d+/reports/1/second\?token=", str(links.nth(1).get_attribute("href")))
