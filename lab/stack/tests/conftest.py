"""A demo, and a browser before it, for each file that plays on one."""

from __future__ import annotations

import signal

import pytest
from playwright.sync_api import expect

from development.leftovers import private_folder
from lab.stack.tests.test_demo import RunningDemo
from shop.tests.test_browser import chromium_started

PATIENCE = 180_000
"""Milliseconds that anything may take."""


@pytest.fixture(scope="module")
def demo():
    with private_folder() as folder:
        running = RunningDemo(folder / "data")
        try:
            running.wait_until_open()
            yield running
        finally:
            running.end(signal.SIGINT)


@pytest.fixture(scope="module")
def page(demo):
    with chromium_started() as browser:
        context = browser.new_context(locale="en", viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page = context.new_page()
        page.goto(f"{demo.url}/stage/")
        yield page
        context.close()
