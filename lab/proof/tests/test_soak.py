"""A soak: drawn by its seed, gone on with where it was stopped, bounded on disk, added up."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from lab.proof import soak_summary
from lab.proof.soak import STATE, STRATEGIES, Soak, SoakPlan, draw_round
from loadtest.faults.fault import wait_until

pytestmark = pytest.mark.long

PLAN = SoakPlan(seed=7, minutes=60, round_minutes=1, lanes=1, strategies=STRATEGIES)


class Played(Soak):
    """Its rounds are not proofs but take what is left on a list."""

    def __init__(self, folder: Path, verdicts: list[str], plan: SoakPlan = PLAN) -> None:
        self.lines: list[str] = []
        super().__init__(folder, plan, self.lines.append)
        self.verdicts = verdicts
        self.commands: list[list[str]] = []
        self.goes_on = threading.Event()

    def _execute(self, command: list[str], log: Path) -> str:
        self.commands.append(command)
        file = Path(command[command.index("--json") + 1])
        (file.parent / "run").mkdir()
        verdict = self.verdicts.pop(0)
        if verdict == "waits":
            self.goes_on.wait()
            return ""
        if verdict != "nothing":
            file.write_text(json.dumps(result(verdict)))
        if not self.verdicts:
            self._ends_after_this_round()
        return "no result; exit code 1"

    def _ends_after_this_round(self) -> None:
        self._before += 10**6


def result(verdict: str) -> dict[str, Any]:
    finding = {"id": "P1", "name": "no oversell", "verdict": verdict, "detail": "2 too many"}
    fault = {"fault": "redis-killed", "recovery": 0.5, "did": {}, "start": 1, "end": 2}
    return {
        "verdict": verdict,
        "reason": "",
        "properties": [finding],
        "counts": {"ok": 3, "fail": 1, "info": 1, "orders": 3, "oversold": 0},
        "operations": 1000,
        "faults": [fault, {**fault, "recovery": 1.5}],
        "left_out": {"disk-full": "root"},
        "repeat": "make prove",
    }


def test_rounds_are_drawn_by_the_seed_and_differ() -> None:
    drawn = [draw_round(7, number, STRATEGIES) for number in range(200)]
    assert drawn == [draw_round(7, number, STRATEGIES) for number in range(200)]
    assert drawn[0] != draw_round(8, 0, STRATEGIES)
    assert {each["strategy"] for each in drawn} == set(STRATEGIES)
    assert {each["mix"] for each in drawn} == {"all", "carts", "rush", "doubles"}


def test_evidence_of_a_pass_is_deleted_and_of_anything_else_kept(tmp_path: Path) -> None:
    soak = Played(tmp_path, ["pass", "fail", "nothing"])
    summary = soak.run()
    assert summary["verdicts"] == {"pass": 1, "fail": 1, "unknown": 1}
    kept = sorted(path.name for path in (tmp_path / "rounds").iterdir())
    assert kept == ["0002", "0003"]
    assert "FAIL" in soak.lines[1]
    assert "no result" in soak.lines[2]


def test_a_soak_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    first = Played(tmp_path, ["pass", "waits"])
    running = threading.Thread(target=first.run)
    running.start()
    wait_until("the second round is on", lambda: len(first.commands) == 2)
    first._stop()
    first.goes_on.set()
    running.join()
    state = json.loads((tmp_path / STATE).read_text())
    assert [each["round"] for each in state["rounds"]] == [1]
    assert state["unfinished"] == [2]

    again = Played(tmp_path, ["pass", "pass"], SoakPlan(99, 60, 1, 1, STRATEGIES))
    assert again.state.seed == 7, "the folder's seed, whatever is asked for now"
    again.run()
    assert [each["round"] for each in again.state.rounds] == [1, 2, 3]
    assert again.commands[0][:-4] == first.commands[1][:-4], "the same round comes again"


def test_no_round_begins_when_the_minutes_are_over(tmp_path: Path) -> None:
    soak = Played(tmp_path, [], SoakPlan(7, 0, 1, 2, STRATEGIES))
    assert soak.run()["rounds"] == 0
    assert soak.commands == []


def test_the_summary_adds_up_and_can_be_read(tmp_path: Path) -> None:
    soak = Played(tmp_path, ["pass", "fail"])
    summary = soak.run()
    assert (summary["operations"], summary["faults"]) == (2000, 4)
    assert summary["by_fault"]["redis-killed"] == {
        "times": 4,
        "longest": 1.5,
        "median": 1.5,
        "never": 0,
    }
    assert summary["by_property"]["P1"] == {"pass": 1, "fail": 1, "unknown": 0}
    assert json.loads((tmp_path / "summary.json").read_text())["operations"] == 2000
    page = (tmp_path / "summary.md").read_text()
    assert "2,000 operations recorded, 4 faults injected" in page
    assert "| redis-killed | 4 | 1.50 s | 1.50 s |" in page
    assert "disk-full | left out" in page
    assert "round 2: fail" in page


@pytest.mark.parametrize("verdict", ["pass", "fail"])
def test_what_is_kept_of_a_round_is_small(verdict: str) -> None:
    big = {**result(verdict), "round": 1, "strategy": "guard", "mix": "rush", "took": 3.0}
    big["properties"] = [{**big["properties"][0], "evidence": ["x" * 1000] * 10}]
    assert len(json.dumps(soak_summary.kept(big))) < 1000
