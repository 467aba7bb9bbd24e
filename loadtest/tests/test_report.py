"""The report and the closing line: what a run's files say, however long the run was."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape

from loadtest.checker import FAIL, PASS, PROPERTIES, Verdict, buyers_by_end, judge
from loadtest.checker import snapshot as s
from loadtest.checker.__main__ import main
from loadtest.checker.judging import judge_run, write_verdict
from loadtest.checker.report import Description, Evidence, document, gather, write
from loadtest.checker.report.gather import BINS, Latencies, Purchases
from loadtest.checker.report.headline import Pace, Speed, headline, wrapped
from loadtest.files import RunFiles
from loadtest.history import AGAIN, INFO, NEVER, OK, Operation
from loadtest.tests.busy_run import sold_out_run
from loadtest.tests.simulated_world import World

SECOND = 1_000_000_000
DESCRIPTION = Description("t")
JUDGED = [name for name in PROPERTIES if name not in ("P12", "P13")]
# What would make a browser send a request; a comment names the library of the charts.
OUTSIDE = re.compile(
    r"https?://(?!github\.com/leeoniya/uPlot \()|\bsrc\s*=|@import|url\("
    r"|<link(?! rel=\"icon\" href=\"data:,\")"
)
CLOSED = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """Reads a page; fails where the tags do not fit together."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in CLOSED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in CLOSED:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def written(
    folder: Path, description: Description, verdict: Verdict, evidence: Evidence | None
) -> str:
    """The page of a description, a verdict and the evidence for its charts."""
    saved = document(description, verdict, evidence, RunFiles(folder))
    write(folder / "r.html", saved, evidence)
    return (folder / "r.html").read_text()


def reported(
    folder: Path,
    description: Description,
    world: World,
    properties: Sequence[str] = JUDGED,
    faults: str = "",
) -> tuple[Verdict, str, RunFiles]:
    """A run's verdict, its report with a log of faults, and its files."""
    files = world.write(folder / "run")
    verdict = judge(files, properties=properties)
    files.faults.write_text(faults)
    return verdict, written(folder, description, verdict, gather(files)), files


def test_report_shows_all_properties_and_loads_nothing(tmp_path: Path) -> None:
    verdict, text, files = reported(tmp_path, Description("A title", "make prove"), sold_out_run(3))
    page = Page(text)
    assert not OUTSIDE.search(text)
    assert "A title" in text
    assert "make prove" in text
    for finding in verdict.properties:
        assert f'id="{finding.id}"' in text
        assert escape(PROPERTIES[finding.id].asks) in text
    charts = {chart["identity"]: chart for chart in json.loads(page.scripts[0])["charts"]}
    assert set(charts) == {"stock", "rate", "latency"}
    # The final read, too, which lasts until the end of the chart.
    moments = len(files.during()) + 2
    assert len(charts["stock"]["at"]) == moments
    assert {len(curve["values"]) for curve in charts["stock"]["curves"]} == {moments}


def test_buyers_are_counted_once_by_the_last_answer(tmp_path: Path) -> None:
    world = World()
    answers = [
        ("ann", 0, "no_answer"),
        ("ann", 201, ""),
        ("ann", 409, "limit_reached"),
        ("bob", 0, "no_answer"),
        ("bob", 409, "sold_out"),
        ("cy", 409, "sold_out"),
        ("di", 429, "rate_limited"),
        ("flo", 503, "busy"),
        ("flo", 0, "no_answer"),
    ]
    for number, (buyer, status, code) in enumerate(answers):
        order = "1" if status == 201 else None
        at = 10 * number
        world.call(at, at + 5, "order", status, code, buyer=buyer, order=order)
    world.call(1, 2, "look", 200, buyer="ed")
    ends = {"got": 1, "no_answer": 1, "sold_out": 2, "refused": 1}
    assert buyers_by_end(world.write(tmp_path)) == ends


def test_first_section_shows_the_figures_and_how_to_check_them(tmp_path: Path) -> None:
    description = Description("A title", look="psql …", figures={"handovers": 7})
    text = written(tmp_path, description, judge(sold_out_run(3).write(tmp_path)), None)
    section = text[text.index('<section class="result"') :].partition("</section>")[0]
    for name, figure in (("taken", 4), ("units", 4), ("oversold", 0), ("handovers", 7)):
        assert f'data-result="{name}"' in section
        assert f"<dd>{figure}</dd>" in section
    assert "psql …" in section
    assert "python -m loadtest.checker" in section


def test_report_lists_what_was_not_judged_with_the_reason(tmp_path: Path) -> None:
    why = {"P9": "no fencing token is used"}
    verdict = judge(sold_out_run(3).write(tmp_path), not_judged=why)
    text = written(tmp_path, DESCRIPTION, verdict, None)
    assert "Not judged, since no fencing token is used: P9 fencing." in text
    assert 'id="P9"' not in text
    assert verdict.to_json()["not_judged"] == why


def test_report_escapes_the_shops_answers(tmp_path: Path) -> None:
    evil, world = "</script><script>alert(1)</script>", World()
    world.call(1, 2, "order", 500, evil, key=evil)
    files = world.write(tmp_path)
    files.faults.write_text(json.dumps({"fault": evil, "start": 1, "end": 2}) + "\n")
    description = Description(evil, evil, {evil: evil}, evil)
    text = written(tmp_path, description, Verdict(), gather(files))
    assert len(Page(text).scripts) == 2
    assert "<script>alert" not in text


def test_report_shows_the_evidence_of_a_broken_property(
    tmp_path: Path,
) -> None:
    world = sold_out_run(3)
    item = world.of(s.Item)[0]
    world.change(item, held=item.total + 3)
    verdict, text, _ = reported(tmp_path, DESCRIPTION, world)
    assert verdict.verdict == FAIL
    for said in ("BROKEN", "units that were sold but did not exist", "<details open>"):
        assert said in text


def test_report_of_a_broken_property_shows_its_smallest_history(tmp_path: Path) -> None:
    world = sold_out_run(3)
    world.rows.remove(world.order)
    verdict = judge(world.write(tmp_path / "run"), properties=JUDGED)
    assert verdict["P3"].verdict == FAIL
    text = written(tmp_path, DESCRIPTION, verdict, None)
    assert not OUTSIDE.search(text)
    section = text[text.index('id="P3"') :].partition("</section>")[0]
    assert "The smallest history that shows it" in section
    [step] = verdict.histories["P3"].rows
    for said in step:
        assert str(escape(said)) in section
    others = [each.id for each in verdict.properties if each.verdict == PASS]
    assert verdict.histories.keys().isdisjoint(others)


def test_report_shows_a_run_without_a_verdict_as_unknown(tmp_path: Path) -> None:
    text = written(tmp_path, Description("t", reason="no final read"), Verdict(), None)
    assert "COULD NOT BE JUDGED" in text
    assert "no final read" in text
    assert "PROVED" not in text


def test_report_counts_open_loop_latency_from_the_due_time(tmp_path: Path) -> None:
    world = World()
    world.call(3, 4, "order", 201, order="1", due=SECOND)
    evidence = gather(world.write(tmp_path))
    assert evidence.open_loop
    assert evidence.purchases.latencies.longest == 3000
    assert evidence.late == 1


def test_report_of_a_fault_that_failed_is_not_a_pass(tmp_path: Path) -> None:
    fault = {"fault": "redis-killed", "start": 1, "end": 2, "error": "no such process"}
    description = Description("t", reason="redis-killed: not there")
    verdict, text, _ = reported(
        tmp_path, description, sold_out_run(3), ["P1"], faults=json.dumps(fault) + "\n"
    )
    assert verdict.verdict == PASS
    assert "PROVED" not in text
    assert "COULD NOT BE JUDGED" in text
    assert "not injected: no such process" in text
    assert json.loads(Page(text).scripts[0])["faults"] == []


@pytest.mark.parametrize("calls", [0, 1, 10, 100_000])
def test_report_bins_cover_the_run_and_hold_every_purchase(calls: int) -> None:
    purchases, origin = Purchases(), 1_000
    for number in range(calls):
        start = origin + number * 7_000_000
        attempt = Operation(start, f"c#{number}", "order", "c", "b", "k", 1, "1", "7", 1)
        attempt.end, attempt.outcome = start + 2_000_000, OK
        purchases.add(attempt, attempt.end)
    timeline = purchases.timeline(origin)
    assert 1 <= len(timeline.bins) <= BINS
    assert sum(each.counts[0] for each in timeline.bins) == purchases.latencies.count == calls
    assert {each.latencies.longest for each in timeline.bins if each.counts[0]} <= {2.0}


def test_percentiles_are_exact() -> None:
    latencies = Latencies(float(number) for number in range(100, 0, -1))
    found = [latencies.percentile(share) for share in (0.0, 0.5, 0.99, 1.0)]
    assert found == [1.0, 51.0, 100.0, 100.0]
    assert Latencies().percentile(0.5) is None


def test_report_command_judges_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, folder = tmp_path / "report.html", tmp_path / "run"
    assert main([str(folder)]) == 2
    assert "cannot be judged" in capsys.readouterr().err
    sold_out_run(3).write(folder)
    assert main([str(folder), "--report", str(report)]) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("COULD NOT BE JUDGED · 4 of 4 sold")
    assert main([str(folder), "--properties", "P1", "P3"]) == 0
    Page(report.read_text())


COUNTS = {"held": 60, "confirmed": 40, "total": 100, "oversold": 0, "available": 0}


def call(
    start: float, end: float, op: str = "order", outcome: str = OK, **more: object
) -> Operation:
    began = Operation(int(start * SECOND), "c#1", op, "c", "b", "k", 1, "1", "2", 1)
    began.end = int(end * SECOND) if end != NEVER else NEVER
    began.outcome, began.status = outcome, 201 if outcome == OK else 409
    for name, value in more.items():
        setattr(began, name, value)
    return began


def speed(*calls: Operation) -> Speed | None:
    pace = Pace()
    for each in calls:
        pace.add(each)
    return pace.speed()


def test_rate_counts_from_the_first_purchase_to_the_last_answer():
    found = speed(
        call(0.0, 0.5, outcome=FAIL),  # not open yet
        call(1.0, 2.0),
        call(1.0, 1.5, "look"),
        call(1.0, 3.0, outcome=FAIL),  # sold out: an answer as well
        call(3.0, 9.0, "read"),  # after the sale
    )
    assert found == Speed(answers=3, seconds=2.0, p99=2000.0)
    assert found.rate == 1.5


@pytest.mark.parametrize(
    "other",
    [
        call(1.2, NEVER, outcome=INFO, status=0),
        call(1.2, 60.0, outcome=INFO, status=0),  # no answer came
        call(1.2, 60.0, client=f"{AGAIN}1"),
        call(1.2, 1.3, "restock"),
    ],
)
def test_rate_leaves_out_answers_outside_the_sale(other):
    assert speed(call(1.0, 2.0), other) == Speed(answers=1, seconds=1.0, p99=1000.0)


def test_latency_counts_from_the_due_time_in_an_open_loop():
    assert speed(call(1.0, 2.0, due=SECOND // 2)) == Speed(answers=1, seconds=1.0, p99=1500.0)


def test_rate_needs_an_accepted_purchase():
    assert speed(call(1.0, 2.0, outcome=FAIL), call(1.0, 2.0, "look")) is None


def test_percentile_99_is_exceeded_by_one_in_a_hundred():
    calls = [call(1.0, 1.0 + number / 100) for number in range(1, 101)]
    found = speed(*calls)
    assert found is not None
    assert found.p99 == pytest.approx(990.0)


def test_closing_line_names_the_outcome_first():
    fast = Speed(9_624, 2.0, 95.4)
    sold = ["100 of 100 sold to 2,000 buyers", "0 oversold", "4,812 requests/s", "p99 95 ms"]
    assert headline("pass", 2000, COUNTS, fast, 21) == ["PROVED", *sold, "21 faults survived"]
    assert headline("fail", 2000, COUNTS, fast, 1) == ["BROKEN", *sold, "1 fault injected"]
    assert headline("fail", 0, COUNTS | {"oversold": 2}, None, 0)[2] == "2 oversold at one moment"
    assert headline("unknown", 0, {}, None, 0) == ["COULD NOT BE JUDGED"]
    assert headline("pass", 0, COUNTS, None, 0)[1] == "100 of 100 sold"
    assert headline("pass", 1, COUNTS, None, 0)[1] == "100 of 100 sold to 1 buyer"


def test_closing_line_is_broken_between_its_parts():
    assert list(wrapped(["aa", "bb", "cc"], 7)) == ["aa · bb", "cc"]
    assert list(wrapped(["aa", "bb", "cc"], 12)) == ["aa · bb · cc"]


TOO_SMALL = sorted(PROPERTIES.keys() - {f"P{number}" for number in range(1, 9)})
"""Properties that a run with four units may say nothing about: all but those of the stock."""


def test_verdict_document_names_how_to_check_it(tmp_path: Path) -> None:
    files = sold_out_run(3).write(tmp_path / "run")
    not_judged = dict.fromkeys(TOO_SMALL, "the run is too small")
    verdict = judge_run(files, not_judged, enough={"ok": 1})
    description = Description("A title", "make prove", look="psql …")
    saved = write_verdict(files, description, verdict, None)
    assert json.loads(files.verdict_file.read_text()) == saved
    assert (saved["version"], saved["verdict"], saved["repeat"]) == (2, "pass", "make prove")
    assert saved["not_judged"] == not_judged
    first = saved["properties"][0]
    assert {"id", "name", "verdict", "detail", "evidence", "problems", "asks", "sql"} <= set(first)
    assert "FROM item" in first["sql"]["checks"][0]["query"]
    [lost, *_] = saved["not_seen"]
    assert lost["trials"] == saved["counts"]["ok"] == 4
    assert lost["text"].startswith("an answered order that is lost less often than once in 1")
    assert saved["check"]["look"] == "psql …"
    assert {"final.snapshot"} <= set(saved["check"]["files"])


def test_folder_is_judged_again_with_a_database_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sold_out_run(3).write(tmp_path / "run")
    not_judged = dict.fromkeys(TOO_SMALL, "the run is too small")
    verdict = judge_run(files, not_judged, enough={"ok": 1})
    saved = write_verdict(files, Description("A title", "make prove"), verdict, None)
    database = tmp_path / "run.sqlite"
    assert main([str(files.path), "--json", "--database", str(database)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == saved
    query = saved["properties"][0]["sql"]["checks"][0]["query"]
    with closing(sqlite3.connect(database)) as tables:
        assert tables.execute(query).fetchall() == []
        assert tables.execute("SELECT count(*) FROM purchase").fetchone() > (0,)


def test_folder_of_rounds_is_judged_again_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        files = sold_out_run(3).write(tmp_path / f"round-{number}")
        judge_run(files, dict.fromkeys(TOO_SMALL, "the run is too small"))
    assert main([str(tmp_path)]) == 0
    (tmp_path / "round-2" / "final.snapshot").unlink()
    capsys.readouterr()
    assert main([str(tmp_path)]) == 2
    assert "round-2:" in capsys.readouterr().out
