"""What a proof says while it runs and when it has ended."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from lab.proof.load_profile import LoadProfile
from lab.proof.plan import Plan
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.show import Lines, step
from loadtest.checker import Verdict
from loadtest.checker.verdict import Finding

PLAN = Plan(LoadProfile(1, "rush", 1), 1, 1, "guard", faults=("planted",))
SELLING = Progress("selling", 3.0, calls={"invoke": 9, "ok": 5, "fail": 3, "info": 1})


def test_without_a_terminal_a_line_tells_each_change_and_nothing_twice():
    file = io.StringIO()
    tell = Lines(Console(file=file, width=40), PLAN)
    for now in (SELLING, SELLING, replace(SELLING, fault="it dies"), Progress("judging")):
        tell(now)
    first, second, third = (line.split(" ", 1)[1] for line in file.getvalue().splitlines())
    assert first == "selling 3 s; fault: none, 0 so far; 5 ok, 3 refused, 1 unknown"
    assert second == "selling 3 s; fault: it dies, 0 so far; 5 ok, 3 refused, 1 unknown"
    assert third == "judging 0 s; fault: none, 0 so far"


def test_a_step_is_two_lines_where_there_is_no_terminal():
    file = io.StringIO()
    with step(Console(file=file, width=40), "Starting the shop", "The shop is started"):
        assert file.getvalue().endswith(" Starting the shop …\n")
    assert "The shop is started after 0.0 s" in file.getvalue()


def test_the_lines_of_two_proofs_say_which_is_which():
    file = io.StringIO()
    Lines(Console(file=file, width=40), PLAN, "naive")(Progress("judging"))
    assert " naive: judging 0 s" in file.getvalue()


def outcome(*failed: str, unsettled: str = "", reason: str = "") -> str:
    findings = [Finding(each, "", "fail", "") for each in failed]
    verdict = Verdict([Finding("P1", "", "pass", ""), *findings], {})
    return Result(1, verdict, 1.0, reason, unsettled).outcome


def test_servers_that_never_recover_leave_the_verdict_unknown_but_for_what_is_lost():
    still = "no log of db1 reaches db3"
    assert outcome(unsettled=still, reason=still) == "unknown"
    assert outcome("P12", "P10", unsettled=still, reason=still) == "unknown"
    assert outcome("P12", "P3", unsettled=still, reason=still) == "fail"
    assert outcome("P12") == "fail"
