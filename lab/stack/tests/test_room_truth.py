"""What the control room says of each server is what a probe of the test's own sees, in each fault.

The greatest difference in time is printed, not judged: `pytest --long -s`. On two cores that do
nothing else it is below two seconds.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil
import psycopg
import pytest
import redis
from playwright.sync_api import Page, expect

from development import leftovers
from development.embedded import EmbeddedServers
from development.leftovers import private_folder
from lab.room.tests.test_browser import places
from lab.stack.tests.test_demo import RunningDemo
from lab.stack.tests.test_show import PATIENCE, open_step, start_a_rush
from shop.tests.test_browser import chromium_started

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
]

EVERY = 0.25
"""Seconds between two questions, of a probe and of the page."""

ACTS = 6.0
"""Seconds for which a fault acts before it is healed."""

NOTICED = 3.0
"""Seconds that a server has to be away for the room to have to say so."""

PROGRAMS = {"celery": "shop worker", "mail": "mail_server"}
"""What stands in the command lines of the programs that nobody can ask."""


@dataclass
class Probe:
    """Asks a server again and again, and keeps the answers with their times."""

    ask: Callable[[], bool]
    seen: list[tuple[float, bool]] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.end.wait(EVERY):
            up = self.ask()
            self.seen.append((time.monotonic(), up))

    def longest_absence(self, since: float) -> float:
        """Return the seconds of the longest time away, which has begun since then."""
        longest, began = 0.0, None
        for at, up in self.seen:
            if at < since or up:
                began = None
                continue
            began = at if began is None else began
            longest = max(longest, at - began)
        return longest

    def was_away(self, since: float) -> bool:
        return any(not up for at, up in self.seen if at >= since)

    def distance(self, at: float, up: bool) -> float:
        """Return the seconds between a moment and the next one at which it saw this state."""
        return min((abs(at - when) for when, seen in self.seen if seen is up), default=float("inf"))


def probes(demo: RunningDemo) -> dict[str, Probe]:
    urls = EmbeddedServers(demo.folder / "servers").urls
    asked: list[psycopg.Connection[Any]] = []

    def redis_answers() -> bool:
        try:
            with redis.Redis.from_url(urls.redis, socket_timeout=1) as client:
                return bool(client.ping())
        except (redis.RedisError, OSError):
            return False

    def database_answers() -> bool:
        try:
            if not asked:  # kept, as by the room: there may be no connection left for another
                asked.append(psycopg.connect(urls.database, autocommit=True, connect_timeout=1))
            asked[0].execute("SELECT 1")
        except psycopg.Error:
            while asked:
                asked.pop().close()
            return False
        return True

    def runs(words: str) -> bool:
        for process in leftovers.find(demo.folder):
            with suppress(psutil.Error):
                # A worker's children have its command line, and end later than it.
                parent = process.parent()
                if words in " ".join(process.cmdline()) and not (
                    parent and words in " ".join(parent.cmdline())
                ):
                    return process.status() != psutil.STATUS_ZOMBIE
        return False

    programs = {name: Probe(partial(runs, word)) for name, word in PROGRAMS.items()}
    return {"postgres": Probe(database_answers), "redis": Probe(redis_answers), **programs}


def said(page: Page) -> dict[str, bool]:
    """Return what the lamps say, by server."""
    found: dict[str, bool] = page.locator("[data-lamp]").evaluate_all(
        """all => Object.fromEntries(
             all.map(each => [each.dataset.lamp, each.dataset.up === 'true']))"""
    )
    return found


@pytest.fixture
def demo():
    with private_folder() as folder:
        running = RunningDemo(folder / "data")
        try:
            running.wait_until_open()
            yield running
        finally:
            running.end(signal.SIGINT)


@pytest.fixture
def probed(demo):
    found = probes(demo)
    threads = [threading.Thread(target=probe.run) for probe in found.values()]
    for thread in threads:
        thread.start()
    yield found
    for probe in found.values():
        probe.end.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def page(demo):
    with chromium_started() as browser:
        context = browser.new_context(locale="en", viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield context.new_page()
        context.close()


def test_room_says_of_each_server_what_a_probe_sees_and_moves_no_button(page, demo, probed):
    open_step(page, demo, 3)
    start_a_rush(page, buyers=5000, arrivals=10, stock=5000)
    expect(page.locator("[data-faults] button").first).to_be_visible()
    faults = page.locator("[data-faults] button").all_inner_texts()
    assert len(faults) > 10
    before, lags = places(page), dict[str, float]()
    for fault in faults:
        since, samples = time.monotonic(), list[tuple[float, dict[str, bool]]]()

        def watch(seconds: float, samples: list[tuple[float, dict[str, bool]]] = samples) -> None:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                samples.append((time.monotonic(), said(page)))
                assert places(page).items() >= before.items()
                page.wait_for_timeout(1000 * EVERY)

        page.get_by_role("button", name=fault, exact=True).click()
        watch(ACTS)
        if page.locator("[data-heal]").is_enabled():
            page.locator("[data-heal]").click()
        expect(page.locator("[data-heal]")).to_be_disabled()
        for name in probed:
            expect(page.locator(f"[data-lamp={name}]")).to_have_attribute("data-up", "true")
        watch(NOTICED)
        lags[fault] = 0.0
        for name, probe in probed.items():
            says_away = any(not lamps[name] for _at, lamps in samples)
            assert not says_away or probe.was_away(since - NOTICED), (fault, name)
            assert says_away or probe.longest_absence(since) < NOTICED, (fault, name)
            furthest = max(probe.distance(at, lamps[name]) for at, lamps in samples)
            lags[fault] = max(lags[fault], furthest)
    for fault, seconds in lags.items():
        print(f"{seconds:5.2f} s  {fault}")
