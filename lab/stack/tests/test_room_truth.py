"""What the control room says of each server is what a probe of the test's own sees, in each fault.

A probe asks each server once per second. What the page says of a moment has to be what the probe
saw within two seconds of it. On a busy machine both may be late, so the nearest answers of the
probe on each side count too, however far away they are. Before a fault is healed, and after it, the
page has to come to say what the probe sees.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import psutil
import psycopg
import pytest
import redis
from playwright.sync_api import Page, expect

from development import leftovers
from development.embedded import EmbeddedServers
from lab.room.tests.test_browser import places
from lab.stack.tests.conftest import PATIENCE
from lab.stack.tests.test_demo import RunningDemo
from lab.stack.tests.test_show import open_step, start_a_rush
from shop.tests.processes import wait_for

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
]

EVERY = 1.0
"""Seconds between two questions, of a probe and of the page."""

WITHIN = 2.0
"""Seconds between what a probe sees and what the page says."""

FRESH = 3
"""Answers of each probe to questions that it asked while a fault acted, before it is healed."""

FULL = re.compile("too many clients|connection slots are reserved")
"""PostgreSQL's words for having no connection left."""

STARTS = 5.0
"""Seconds after its start in which a program may be called up or away."""

PROGRAMS = {"celery": "shop worker", "mail": "mail_server"}
"""What stands in the command lines of the programs that nobody can ask."""


class Answer(NamedTuple):
    """What a server answered to a question that was asked and answered at two times.

    Attributes:
        up: None if it turns new clients away, but answers those who have a connection, or if it
            has just been started.
    """

    asked: float
    answered: float
    up: bool | None


@dataclass
class Probe:
    """Asks a server again and again, and keeps the answers."""

    ask: Callable[[], bool | None]
    answers: list[Answer] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.end.wait(EVERY):
            asked, up = time.time(), self.ask()
            self.answers.append(Answer(asked, time.time(), up))

    def since(self, moment: float) -> list[Answer]:
        """Return the answers to what was asked after a moment."""
        return [answer for answer in self.answers if answer.asked > moment]

    def around(self, moment: float) -> list[Answer]:
        """Return the answers within `WITHIN` of a moment, and the next one on each side."""
        before = [answer for answer in self.answers if answer.answered < moment - WITHIN]
        after = self.since(moment + WITHIN)
        between = self.answers[len(before) : len(self.answers) - len(after)]
        return [*before[-1:], *between, *after[:1]]


@dataclass(frozen=True)
class Said:
    """What the lamps say of a moment, by server, while a fault acts or has acted."""

    fault: str
    at: float
    lamps: dict[str, bool]


def probes(demo: RunningDemo, asked: list[psycopg.Connection[Any]]) -> dict[str, Probe]:
    """Return a probe of each server; `asked` keeps the connection to the database."""
    urls = EmbeddedServers(demo.folder / "servers").urls

    def redis_answers() -> bool:
        try:
            with redis.Redis.from_url(urls.redis, socket_timeout=1) as client:
                return bool(client.ping())
        except (redis.RedisError, OSError):
            return False

    def database_answers() -> bool | None:
        try:
            if not asked:  # kept, as by the room
                asked.append(psycopg.connect(urls.database, autocommit=True, connect_timeout=1))
            asked[0].execute("SELECT 1")
        except psycopg.Error as error:
            while asked:
                asked.pop().close()
            return None if FULL.search(str(error)) else False
        return True

    def runs(words: str) -> bool | None:
        for process in leftovers.find(demo.folder):
            with suppress(psutil.Error):
                # A worker's children have its command line, and end later than it.
                parent = process.parent()
                if words in " ".join(process.cmdline()) and not (
                    parent and words in " ".join(parent.cmdline())
                ):
                    if time.time() - process.create_time() < STARTS:
                        return None
                    return process.status() != psutil.STATUS_ZOMBIE
        return False

    programs = {name: Probe(partial(runs, word)) for name, word in PROGRAMS.items()}
    return {"postgres": Probe(database_answers), "redis": Probe(redis_answers), **programs}


def said(page: Page, fault: str) -> Said:
    """Return what the page says."""
    at, lamps = page.locator("[data-lamps]").evaluate(
        """lamps => [lamps.dataset.at, Object.fromEntries(
             [...lamps.children].map(({dataset}) => [dataset.lamp, dataset.up === 'true']))]"""
    )
    return Said(fault, float(at), lamps)


@pytest.fixture
def probed(demo):
    asked: list[psycopg.Connection[Any]] = []
    found = probes(demo, asked)
    threads = [threading.Thread(target=probe.run) for probe in found.values()]
    for thread in threads:
        thread.start()
    yield found
    for probe in found.values():
        probe.end.set()
    for thread in threads:
        thread.join()
    for connection in asked:
        connection.close()


def test_room_says_of_each_server_what_a_probe_sees(page, demo, probed):
    open_step(page, demo, 3)
    start_a_rush(page, buyers=5000, arrivals=10, stock=5000)
    expect(page.locator("[data-faults] button").first).to_be_visible()
    faults = page.locator("[data-faults] button").all_inner_texts()
    assert len(faults) > 10
    before, samples = places(page), list[Said]()

    def agree(fault: str) -> bool:
        """Look once; return whether the page says the latest answer of each probe."""
        seen = {name: probe.answers[-1] for name, probe in probed.items()}
        moment = said(page, fault)
        samples.append(moment)
        assert places(page).items() >= before.items(), fault
        return all(answer.up in (None, moment.lamps[name]) for name, answer in seen.items())

    def watch(fault: str, fresh: int) -> None:
        """Look until each probe has so many new answers, and the page says the last."""
        began, since = time.monotonic(), time.time()
        while not (
            agree(fault) and all(len(each.since(since)) >= fresh for each in probed.values())
        ):
            assert time.monotonic() - began < PATIENCE / 1000, samples[-1]
            page.wait_for_timeout(1000 * EVERY)

    for fault in faults:
        page.get_by_role("button", name=fault, exact=True).click()
        # Only then it has reached the busy process of the room; it may also have failed.
        expect(page.get_by_role("log")).to_contain_text(
            re.compile(f"Fault (injected|armed|failed): {re.escape(fault)}")
        )
        watch(fault, FRESH)
        # A fault may end by itself at this moment; a disabled button does nothing.
        page.locator("[data-heal]").evaluate("button => button.click()")
        expect(page.get_by_role("button", name=fault, exact=True)).to_be_enabled()
        for name in probed:
            expect(page.locator(f"[data-lamp={name}]")).to_have_attribute("data-up", "true")
        watch(f"after {fault}", 1)
    ended = time.time() + WITHIN
    wait_for(lambda: all(each.since(ended) for each in probed.values()))
    wrong = []
    for sample in samples:
        for name, probe in probed.items():
            answers = probe.around(sample.at)
            if not {sample.lamps[name], None} & {answer.up for answer in answers}:
                wrong.append((sample.fault, name, sample.lamps[name], sample.at, answers))
    assert wrong == []
    assert all(any(answer.up is False for answer in probe.answers) for probe in probed.values())
