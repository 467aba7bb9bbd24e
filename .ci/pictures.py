"""Make the picture of the shop in the README: `.venv/bin/python .ci/pictures.py http://127.0.0.1:8000`.

The address is a running demo's. Needs Chromium (`.ci/install-servers`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main(address: str) -> None:
    """Sign in as the demo's buyer, and take the page of the headphones' sale."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")
        page = browser.new_page(viewport={"width": 1000, "height": 660})
        page.goto(f"{address}/sign-in/")
        page.fill("[name=username]", "buyer")
        page.fill("[name=password]", "demo-buyer")
        page.press("[name=password]", "Enter")
        page.wait_for_url(lambda url: "sign-in" not in url)
        page.goto(address)
        page.get_by_role("link", name="Headphones").first.click()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=DOCS / "shop.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
