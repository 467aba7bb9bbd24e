"""A proof on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from lab.proof import show
from lab.proof.progress import Progress
from lab.proof.result import Result
from loadtest.checker import PROPERTIES, Finding, Verdict
from loadtest.checker.verdict import Problem
from loadtest.run_plan import RunPlan

DETAIL = "123456 lines of 12 sales, all in windows that were open; 0 changes of these"
KEY = "0b5417f2-6f0c-4d0e-9f3c-2f1f8f1c9f00"
COUNTS = {
    "ok": 100,
    "fail": 2_099,
    "info": 0,
    "sold_out": 2_084,
    "orders": 100,
    "lost": 0,
    "oversold": 0,
    "available": 0,
    "held": 60,
    "confirmed": 40,
    "total": 100,
}
LINE = "PROVED · 100 of 100 sold to 2,000 buyers · 0 oversold"


def plan(*faults: str) -> RunPlan:
    return RunPlan(buyers=2000, seed=7, faults=faults)


def outcome(verdict: str = "pass", **more: object) -> Result:
    """Return a result with figures as wide as any."""
    problem = Problem("buyer w0.b7, key {key}: order 91 is not there", {"key": KEY})
    problems = [problem] if verdict == "fail" else []
    findings = [
        Finding(each.id, each.name, verdict, DETAIL, problems)
        for each in PROPERTIES.values()
        if each.id != "P9"
    ]
    judged = Verdict(findings, COUNTS, not_judged={"P9": "no fencing token is used"})
    return Result(1, judged, 1.0, **more)  # type: ignore[arg-type]


def printed(plan: RunPlan, came_out: Result) -> str:
    console = Console(file=io.StringIO(), width=160)
    show.result(console, plan, came_out)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_verdict_starts_with_its_result_and_ends_with_a_command():
    text = printed(plan(), outcome())
    names = [each.name for each in PROPERTIES.values() if each.id != "P9"]
    assert [name for name in names if name not in text] == []
    assert "Not judged, since no fencing token is used: P9 fencing." in text
    expected = [LINE, "no oversell", "orders in the database", "Again: make prove "]
    places = [text.index(each) for each in expected]
    assert places == sorted(places)


def test_evidence_of_a_broken_property_is_shown():
    assert f"key {KEY}: order 91 is not there" in printed(plan(), outcome(verdict="fail"))


SELLING = Progress("selling", 3.0)


def test_progress_without_a_terminal_has_one_line_per_change():
    file = io.StringIO()
    tell = show.Lines(Console(file=file, width=40), plan("planted"), "naive")
    for now in (SELLING, SELLING, replace(SELLING, fault="it dies"), Progress("judging")):
        tell(now)
    first, second, third = (line.split(" ", 1)[1] for line in file.getvalue().splitlines())
    assert first == "naive: selling 3 s; fault: none, 0 so far"
    assert second == "naive: selling 3 s; fault: it dies, 0 so far"
    assert third == "naive: judging 0 s; fault: none, 0 so far"


def test_verdict_that_did_not_pass_names_the_log_of_the_shop():
    assert "The shop's log: /kept/web.log" in printed(
        plan(), outcome(verdict="fail", log="/kept/web.log")
    )
