"""Make the README's two pictures: `.venv/bin/python .ci/pictures.py http://127.0.0.1:8000`.

The address is a running demo's. The shop's page is taken in Chromium (`.ci/install-servers`); the
verdict is what `make prove` prints.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

PROJECT = Path(__file__).resolve().parent.parent
PROOF = ("prove", "--buyers", "500", "--stock", "100", "--seed", "7")
COLUMNS = 88


def take_shop(address: str) -> None:
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
        page.screenshot(path=PROJECT / "docs" / "shop.png")
        browser.close()


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


if __name__ == "__main__":
    if sys.argv[1:]:
        take_shop(sys.argv[1])
    take_verdict()
