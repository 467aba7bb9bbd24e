"""The show of ten minutes, played in a browser on a real demo: each step shows what it says.

No time is judged, only what stands on the page, so that a slow machine plays it too.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from lab.room.tests.test_browser import places
from lab.stack.tests.test_demo import RunningDemo

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(900)]


def open_step(page: Page, demo: RunningDemo, number: int) -> None:
    """Open a step from the stage, as its person."""
    page.goto(f"{demo.url}/stage/")
    page.locator(f"[data-step='{number}'] button").click()


def result(page: Page, name: str) -> int:
    """Return a figure of the rush's card."""
    return int(page.locator(f"[data-result={name}] dd").inner_text().replace(",", ""))


def places_by_size(page: Page) -> list[dict[str, list[float]]]:
    """Return where each button is on a notebook and on a projector; the page keeps the former."""
    found = []
    for width, height in ((1920, 1080), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        found.append(places(page))
    return found


def moved(before: list[dict[str, list[float]]], now: list[dict[str, list[float]]]) -> list[str]:
    """Return the buttons that are elsewhere, and where; the card of an earlier rush may be gone."""
    return [
        f"{name}: {place} {after[name]}"
        for old, after in zip(before, now, strict=True)
        for name, place in old.items()
        if name in after and place != after[name]
    ]


def start_a_rush(page: Page, *, buyers: int, arrivals: int, stock: int) -> None:
    """Start a rush, and wait until its sale sells."""
    for name, value in (("buyers", buyers), ("arrivals", arrivals), ("stock", stock)):
        page.locator(f"#rush [name={name}]").fill(str(value))
    page.locator(".rush-bar [data-start]").click()
    expect(page.locator("[data-sale-state]")).to_have_text("open")
    expect(page.locator("[data-name=held] strong")).not_to_have_text("0")


def test_show_step_1_a_buyer_buys_a_phone(page, demo):
    open_step(page, demo, 1)
    page.get_by_role("button", name=re.compile("^Buy")).first.click()
    page.wait_for_url(re.compile(r"/orders/\d+/"))


def test_show_step_2_a_rush_sells_all_and_no_more(page, demo):
    open_step(page, demo, 2)
    start_a_rush(page, buyers=120, arrivals=20, stock=80)
    expect(page.locator("[data-result-links]")).to_be_visible()
    assert (result(page, "got"), result(page, "taken"), result(page, "oversold")) == (80, 80, 0)
    others = result(page, "sold_out") + result(page, "refused") + result(page, "no_answer")
    assert result(page, "buyers") == 80 + others
    expect(page.locator("[data-verdict]")).to_have_text("The books balance")


def test_show_step_3_redis_is_away_and_an_old_token_is_refused(page, demo):
    open_step(page, demo, 3)
    start_a_rush(page, buyers=4000, arrivals=20, stock=4000)
    before = places_by_size(page)
    page.get_by_role("button", name="kill Redis", exact=True).click()
    expect(page.locator("[data-lamp=redis]")).to_have_attribute("data-up", "false")
    expect(page.locator("[data-measured]")).to_contain_text("Redis does not answer since")
    expect(page.locator("[data-measured]")).to_contain_text("batches without the lock:")
    expect(page.locator("[data-chart=stock]")).to_have_attribute("data-bands", "redis-killed")
    assert moved(before, places_by_size(page)) == []
    page.locator("[data-heal]").click()
    expect(page.locator("[data-lamp=redis]")).to_have_attribute("data-up", "true")
    log = page.get_by_role("log")
    expect(log).to_contain_text("Redis answers again")
    expect(log).to_contain_text("uses the lock again")
    expect(page.locator("[data-heal]")).to_be_disabled()
    page.get_by_role("button", name="pause the lock's holder beyond its lease").click()
    expect(page.locator("[data-scene]")).to_contain_text("paused, token …")
    expect(page.locator("[data-scene]")).to_contain_text(re.compile("token ….* refused"))
    assert moved(before, places_by_size(page)) == []
    page.get_by_role("button", name="kill the Celery worker").click()
    expect(log).to_contain_text("Celery is gone")
    expect(page.locator("[data-lamp=celery]")).to_have_attribute("data-up", "false")
    page.locator("[data-heal]").click()
    expect(log).to_contain_text("Celery has started")
    page.get_by_role("button", name="Send the buyers away").click()
    expect(page.locator("[data-result-links]")).to_be_visible()
    assert result(page, "oversold") == 0


def test_show_step_4_the_duel_shows_how_many_too_many(page, demo):
    open_step(page, demo, 4)
    page.get_by_role("button", name="First violation").click()
    naive, combining = page.locator("[data-side]").all()
    expect(naive.locator("[data-figure=oversold] b")).to_have_text("1")
    page.keyboard.press("End")
    expect(combining.locator("[data-figure=oversold] b")).to_have_text("0")
    expect(combining.locator("[data-figure=sold] b")).to_have_text("50")
    expect(page.locator("[name=first]")).to_have_value("naive")
    expect(page.locator("[name=second]")).to_have_value("combining")


def test_show_step_5_breaks_the_first_lesson_and_names_the_next(page, demo):
    open_step(page, demo, 5)
    shown = page.locator("[data-lab]")
    expect(shown).to_have_attribute("data-shown", "broken/")
    page.locator("[data-move=A]").click()
    page.get_by_role("button", name="Kill A").click()
    page.goto(f"{page.url}.B*16.Visitor")
    expect(page.locator("[data-verdict]")).to_contain_text("You broke it.")
    expect(page.get_by_role("link", name="Next: 2.")).to_be_visible()
    page.get_by_role("button", name="Search it for a failure").click()
    expect(page.locator("[data-result]")).to_contain_text("nobody can ever enter")


def test_show_starts_again_with_a_fresh_front_and_an_empty_room(page, demo):
    page.goto(f"{demo.url}/stage/")
    page.locator("[data-again]").click()
    expect(page.get_by_text("The show can start again.")).to_be_visible()
    page.goto(demo.url)
    phone = page.locator("article", has_text="Classic phone")
    expect(phone).to_have_count(1)
    expect(phone).to_contain_text("10 of 10 left")
    open_step(page, demo, 2)
    expect(page.locator("[data-card-none]")).to_be_visible()
    expect(page.get_by_role("log")).not_to_contain_text("kill Redis")
