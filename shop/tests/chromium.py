"""The browser of the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from locking.tests.needs import Need, find, require

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROMIUM = Need("Chromium", "apt-get install chromium", lambda: any(map(find, NAMES)))


@contextmanager
def started() -> Iterator[Browser]:
    """Run it inside the block."""
    require(CHROMIUM)
    path = next(filter(None, map(find, NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()
