"""The player in a real browser: a recorded rush, a report, and files that are no replay."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from lab.room.duel import Replays
from lab.room.recorder import Recorder, recording
from loadtest.checker import judge
from loadtest.history import Recorder as History
from loadtest.replay import compose, marks_of
from loadtest.report import Story, write
from loadtest.tests.planted_stock import PLANTS
from loadtest.tests.test_replay import a_run
from shop.checkout.purchase import buy
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, a_sale

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.django_db(transaction=True)]


NO_REPLAYS = {
    "nonsense": "it is not JSON",
    '{"replay": 2}': "no “replay” version 1",
    "<!doctype html><p>A page</p>": "it is not JSON",
    '{"replay": 1}': "damaged: sent",
    '{"replay": 1, "calls": {"sent": [1], "answered": []}}': "damaged: answered",
    '{"replay": 1, "calls": {"sent": []}}': "has no requests",
}


def a_rush(folder: Path, stock: int) -> int:
    """Let four buyers at a sale one after the other, recorded; return the sale's id."""
    sale = a_sale(stock=stock)
    history = History(folder / "buyers.jsonl")
    with ExitStack() as cleanup:
        cleanup.enter_context(recording(folder))
        recorder = Recorder(Path(settings.LAB_RECORDING))
        cleanup.callback(recorder.end)
        assert recorder.look() == 1.0
        for number in range(4):
            key, call = uuid4(), f"c#{number}"
            item, buyer = str(sale.item_id), f"b{number}"
            history.invoke(
                call, "order", client="c", buyer=buyer, key=str(key), item=item, quantity=1
            )
            try:
                bought = buy(sale.pk, a_buyer().pk, key, 1)
                history.complete(call, "ok", status=201, order=str(bought.order.pk))
            except Refusal as refusal:
                history.complete(call, "fail", status=409, code=refusal.code)
    history.close()
    return sale.pk


def seek(page: Page, at: int) -> None:
    page.get_by_role("slider").evaluate(
        "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }", at
    )


def figures(page: Page) -> list[str]:
    return page.locator(".replay-figures > div:visible b").all_inner_texts()


def test_a_recorded_rush_is_played_by_keyboard_and_marks_nothing(open_page, tmp_path):
    folder = tmp_path / "rush"
    folder.mkdir()
    sale = a_rush(folder, stock=3)
    replays = Replays(tmp_path / "replays")
    number = replays.keep(folder, sale, "A rush")
    found = replays.find(str(number))
    assert found is not None
    document = json.loads(found)
    served = document["served"]
    assert None not in served["queued"] + served["committed"]
    # The last one was refused in the queue.
    assert [begun is None for begun in served["begun"]] == [False, False, False, True]
    page = open_page(f"/room/replay/?rush={number}")
    expect(page.locator("[data-title]")).to_have_text(f"{sale} · combining · A rush")
    expect(page.get_by_text("Nothing was broken in this run.")).to_be_visible()
    expect(page.get_by_role("button", name="First violation")).to_be_hidden()
    play = page.get_by_role("button", name="Play", exact=True)
    play.focus()
    page.keyboard.press("End")
    assert figures(page) == ["0", "0", "0", "3", "1", "0", "0"]
    page.keyboard.press("Home")
    expect(page.locator(".replay-events li").first).to_contain_text("sends a request")
    for wanted in ("is in the queue", "begins a transaction", "has committed"):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".replay-events li").first).to_contain_text(wanted)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".replay-said")).to_contain_text("begins a transaction")
    page.get_by_label("Speed").select_option("1")
    play.click()
    expect(play).to_be_visible()  # it has become "Pause", and at the end "Play" again
    assert figures(page) == ["0", "0", "0", "3", "1", "0", "0"]


def test_a_report_opens_at_the_violation_alone_and_on_the_demos_page(open_page, tmp_path):
    world = a_run()
    PLANTS["P4: order of a refused key"](world)
    files = world.write(tmp_path / "run")
    verdict = judge(**files, properties=["P1", "P4"])
    marks = marks_of(verdict)
    replay = compose(files["histories"], title="The broken run", marks=marks, units=4)
    report = tmp_path / "report.html"
    write(report, Story("t"), verdict, None, replay)
    page = open_page("/room/replay/")
    expect(page.locator("[data-title]")).to_have_text("naive")  # the recording that ships
    page.get_by_label("A report or a replay").set_input_files(report)
    expect(page.locator("[data-title]")).to_have_text("The broken run")
    expect(page.locator(".replay-broken")).to_contain_text("P4, no phantom order, is broken")
    at = replay["marks"][0]["at"]
    assert abs(int(page.get_by_role("slider").input_value()) - at) <= replay_step(page)
    expect(page.locator(".replay-events li").first).to_contain_text("P4 is broken")
    seek(page, 0)
    expect(page.locator(".replay-broken")).to_be_hidden()
    page.goto(report.as_uri())
    assert page.locator("[data-watch]").count() == 1
    page.get_by_role("button", name="Watch it break in slow motion").click()
    expect(page.get_by_role("dialog").locator(".replay-broken")).to_contain_text("P4")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def replay_step(page: Page) -> int:
    return int(str(page.get_by_role("slider").get_attribute("step")))


def test_a_file_that_is_no_replay_is_refused_with_a_reason(open_page):
    page = open_page("/room/replay/")
    # Until then, the page's script does not listen.
    expect(page.locator("[data-title]")).to_have_text("naive")
    for text, why in NO_REPLAYS.items():
        file = {"name": "x.json", "mimeType": "application/json", "buffer": text.encode()}
        page.get_by_label("A report or a replay").set_input_files([file])
        expect(page.get_by_role("alert").filter(visible=True)).to_contain_text(why)
        expect(page.locator("[data-title]")).to_have_text("naive")  # the player goes on as it was
