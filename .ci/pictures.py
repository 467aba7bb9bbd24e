"""Make the pictures of pages: `.venv/bin/python .ci/pictures.py http://127.0.0.1:8000`.

The address is that of a demo that runs and is not used meanwhile: its control room gets a rush and
a fault. The pages are taken in Chromium (`.ci/install-servers`): the README's of the shop, the
control room's in `docs/`, and the small ones of the stage. The verdict is what `make prove` prints;
without an address it is the only picture.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright
from rich.console import Console
from rich.text import Text

PROJECT = Path(__file__).resolve().parent.parent
DOCS, STAGE = PROJECT / "docs", PROJECT / "lab" / "static" / "lab" / "stage"
PROOF = ("prove", "--buyers", "500", "--stock", "100", "--seed", "7")
COLUMNS = 88

SHOP_SIZE: ViewportSize = {"width": 1000, "height": 660}
SIZE: ViewportSize = {"width": 1280, "height": 800}
SMALL = 480 / 1280
"""The scale of the stage's pictures, 480 by 300 pixels."""

PATIENCE = 120_000
"""Milliseconds that anything may take."""

SOLD = 350
"""Units after which the control room's picture gets its fault …"""

WATCHED = 4_000
"""… and the milliseconds after which it is taken."""


def open_as(
    browser: Browser, address: str, username: str, size: ViewportSize = SIZE, scale: float = 1
) -> Page:
    """Return a page of one of the demo's accounts."""
    page = browser.new_page(viewport=size, device_scale_factor=scale)
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/sign-in/")
    page.fill("[name=username]", username)
    page.fill("[name=password]", f"demo-{username}")
    page.press("[name=password]", "Enter")
    page.wait_for_url(lambda url: "sign-in" not in url)
    return page


def take_shop(browser: Browser, address: str) -> None:
    """Take the page of the headphones' sale, as the demo's buyer sees it."""
    page = open_as(browser, address, "buyer", SHOP_SIZE)
    page.goto(address)
    page.get_by_role("link", name="Headphones").first.click()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=DOCS / "shop.png")


def take_room(browser: Browser, address: str) -> None:
    """Take the control room while buyers come and Redis is away, at its size and small."""
    page = open_as(browser, address, "admin")
    page.goto(f"{address}/room/")
    expect(page.locator("[data-sale]")).not_to_be_empty()
    before = page.locator("[data-sale]").inner_text()
    page.locator(".rush-bar [data-start]").click()
    expect(page.locator("[data-sale]")).not_to_have_text(before)
    expect(page.locator("[data-sale-state]")).to_have_text("open")
    page.wait_for_function(
        "units => Number(document.querySelector('main [data-name=held] strong')"
        ".textContent.replaceAll(',', '')) > units",
        arg=SOLD,
    )
    page.get_by_role("button", name="kill Redis", exact=True).click()
    expect(page.locator("[data-measured]")).to_contain_text("Redis does not answer since")
    page.wait_for_timeout(WATCHED)
    page.screenshot(path=DOCS / "control-room.png")
    small = open_as(browser, address, "admin", scale=SMALL)
    small.goto(f"{address}/room/")
    expect(small.locator("[data-measured]")).to_contain_text("Redis does not answer since")
    take_small(small, "room")
    page.locator("[data-heal]").click()
    expect(page.locator("[data-heal]")).to_be_disabled()
    page.get_by_role("button", name="Send the buyers away").click()
    expect(page.locator("[data-result-links]")).to_be_visible()


def take_stage(browser: Browser, address: str) -> None:
    """Take the parts of the demo that the stage shows, but the control room, each as it opens."""
    page = open_as(browser, address, "admin", scale=SMALL)
    page.goto(f"{address}/stage/")
    urls = {
        card.get_attribute("data-scene"): link.get_attribute("href")
        for card in page.locator("[data-scene]").all()
        if (link := card.locator("h3 a")).count()
    }
    del urls["room"]
    for name, url in urls.items():
        page.goto(address + str(url) if str(url).startswith("/") else str(url))
        page.wait_for_load_state("networkidle")
        if name == "locks":
            page.goto(f"{address}/locks/setnx-expire/crash/#A.A!")
            expect(page.locator("[data-lab]")).to_have_attribute("data-shown", "broken/A.A!")
        if name == "duel":
            page.get_by_role("button", name="First violation").click()
        take_small(page, str(name))


def take_small(page: Page, name: str) -> None:
    """Take a page for the stage."""
    page.screenshot(path=STAGE / f"{name}.jpg", type="jpeg", quality=80)


def take_verdict() -> None:
    """Run a proof, and draw what it prints, from its headline to the end of the table."""
    done = subprocess.run(
        [sys.executable, "manage.py", *PROOF],
        cwd=PROJECT,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = "PROVED" + done.stdout.partition("PROVED")[2].partition("Not judged")[0]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(f"$ python3 manage.py {' '.join(PROOF)}\n{shown}".rstrip()))
    console.save_svg(str(PROJECT / "docs" / "verdict.svg"), title="make prove")


def main() -> None:
    """Take what can be taken."""
    if sys.argv[1:]:
        expect.set_options(timeout=PATIENCE)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")
            for take in (take_shop, take_stage, take_room):
                take(browser, sys.argv[1].rstrip("/"))
            browser.close()
    take_verdict()


if __name__ == "__main__":
    main()
