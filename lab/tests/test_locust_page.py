"""Locust's page in a real browser: form, figures and verdict."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from development import processes
from development.embedded import private_servers
from development.leftovers import private_folder
from development.ports import next_free, release
from lab.stack.stack import WITHOUT_LOAD, Stack
from lab.tests.whole_shop import manage
from loadtest.checker.report.headline import STOPPED
from loadtest.checker.snapshot import Terms, read
from loadtest.history import FAIL, OK, operations
from loadtest.sale_roles import roles_for
from shop.tests.processes import wait_for
from shop.tests.test_browser import PATIENCE, chromium_started

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(400)]

USERS, STOCK = 60, 20


@pytest.fixture(scope="module")
def shop() -> Iterator[Stack]:
    with (
        private_servers(durable=False) as servers,
        private_folder() as folder,
        Stack(folder / "shop", servers.urls, extra={"SHOP_DATA": str(folder)}) as stack,
    ):
        manage(servers.urls, "migrate", "--verbosity", "0")
        stack.start(*WITHOUT_LOAD)
        yield stack


@contextmanager
def locust(shop: Stack, folder: str, *arguments: str) -> Iterator[str]:
    """Start Locust with its page; yield the page's address."""
    port, rpc = next_free(8089), next_free(5557)
    words = [
        "locust",
        "-f",
        "loadtest/locustfile.py",
        "--host",
        shop.url,
        "--web-host",
        "127.0.0.1",
        "--web-port",
        str(port),
        "--runs",
        folder,
        "--master-port",
        str(rpc),
        "--master-bind-port",
        str(rpc),
        "--users",
        str(USERS),
        "--spawn-rate",
        str(USERS),
        *arguments,
    ]
    with processes.Page("locust", words, "/", port=port) as running:
        yield f"{running.endpoint}/"
    release(port, rpc)


@pytest.fixture
def page() -> Iterator[Page]:
    complaints: list[str] = []
    with chromium_started() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    assert complaints == []


def start(
    page: Page, address: str, strategy: str, mix: str = "rush", stock: object = STOCK
) -> None:
    """Submit the start form and open the tab, if the run starts."""
    # The form knows the strategies as soon as Locust has asked the shop.
    wait_for(lambda: page.goto(address) and page.locator("select[name=strategy]").count())
    page.get_by_role("button", name="Custom parameters").click()
    page.locator("select[name=strategy]").select_option(strategy)
    page.locator("select[name=mix]").select_option(mix)
    page.locator("input[name=stock]").fill(str(stock))
    page.get_by_role("button", name="Start").click()
    if stock == STOCK:
        page.get_by_role("tab", name="Correctness").click()


def cell(page: Page, name: str):
    """Return the tab's cell for a figure."""
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True))
    return row.get_by_role("cell").nth(1)


def bar(page: Page):
    return page.locator("#correctness-bar")


def verdict(page: Page) -> str:
    """Stop the run, perhaps before its last buyers are done, and read the verdict on its page."""
    page.get_by_role("button", name="Stop").click()
    judged = re.compile("PASS|FAIL|UNKNOWN")
    expect(bar(page).locator("b")).to_have_text(judged)
    expect(cell(page, "Verdict")).to_have_text(judged)
    bar(page).get_by_role("link").click()
    expect(page.get_by_role("link", name="Download the report")).to_be_visible()
    expect(page.locator("figure[data-chart] canvas").first).to_be_visible()
    return page.locator("h1").inner_text().removesuffix(f" · {STOPPED}")


def test_naive_chosen_in_the_form_is_seen_to_oversell(shop, page, tmp_path):
    with locust(shop, str(tmp_path)) as address:
        start(page, address, "naive")
        expect(cell(page, "Strategy")).to_have_text("naive")
        expect(cell(page, "Oversold")).to_have_text(re.compile(r"[1-9]\d*"))
        # Red before the run ends, with the property and the purchases that show it. A busy machine
        # judges seldom, since the judge leaves it to the run.
        expect(bar(page)).to_have_class("fail", timeout=240_000)
        expect(bar(page)).to_contain_text("P1 no oversell")
        tab = page.get_by_role("tab", name="Correctness")
        expect(tab).to_have_attribute("data-verdict", "fail")
        first = page.get_by_role("row").filter(has_text="→ 201 order").first
        # The snapshots may show it before the calls do.
        expect(first).to_contain_text("order: 1 of sale", timeout=240_000)
        assert verdict(page) == "BROKEN"
        expect(page.locator("#P1 .badge")).to_have_text("FAIL")
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_locust_page_fills_and_judges_carts_of_several_sales(shop, page, tmp_path):
    with locust(shop, str(tmp_path)) as address:
        start(page, address, "combining", mix="carts")
        expect(cell(page, "Held")).to_have_text(re.compile(r"[1-9]\d*"))
        assert verdict(page) == "PROVED"
    [final] = tmp_path.glob("*/final.snapshot")
    rows = [json.loads(line) for line in final.read_text().splitlines()]
    items = {row["item"] for row in rows if row["kind"] == "order"}
    carts = Counter(row["id"] for row in rows if row["kind"] == "order")
    assert len(items) == len(roles_for("carts"))
    assert max(carts.values()) > 1
    mails = (final.parent / "deliveries.snapshot").read_text().splitlines()
    assert {row["order"] for row in map(json.loads, mails[1:-1])} == set(carts)


def test_locust_page_changes_the_sale_and_repeats_keys(shop, page, tmp_path):
    run = tmp_path / "0001"
    with locust(shop, str(tmp_path)) as address:
        start(page, address, "combining", mix="windows")
        # The sale was paused long before it is closed.
        wait_for(lambda: any('"ended"' in each.read_text() for each in run.glob("*.jsonl")))
        assert verdict(page) == "PROVED"
    terms = [row for row in read(run / "terms.snapshot")[1] if isinstance(row, Terms)]
    opened, *changes = (row for row in terms if row.price != 99_900)
    assert [row.paused for row in changes[:3]] == [True, False, False]
    assert changes[0].price == opened.price != changes[1].price
    assert changes[-1].ends_at <= changes[-1].done
    assert {operation.outcome for operation in operations(run / "again.jsonl")} >= {OK, FAIL}
    assert not list(run.glob("*.tokens"))


def test_locust_page_adds_up_processes_and_proves_combining(shop, page, tmp_path):
    with locust(shop, str(tmp_path), "--processes", "2") as address:
        start(page, address, "combining", stock="many")
        expect(bar(page)).to_contain_text("could not start: stock must be a whole number")
        start(page, address, "combining")
        expect(cell(page, "Held")).to_have_text(str(STOCK))
        expect(cell(page, "Oversold")).to_have_text("0")
        # All buyers asked, in one process or the other, and more than half were refused.
        expect(cell(page, "Refused")).to_have_text(re.compile(r"[3-9]\d|\d{3,}"))
        assert verdict(page) == "PROVED"
        expect(page.locator("#P11 .badge")).to_have_text("PASS")
        assert len(list(tmp_path.glob("0001/*.*.jsonl"))) == 2
