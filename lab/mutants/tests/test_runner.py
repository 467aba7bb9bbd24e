"""The runner finds what is wrong, leaves what is right, remembers both, and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lab import environment
from lab.mutants import report
from lab.mutants.catalogue import Edit, Mutant
from lab.mutants.copy import private_copy
from lab.mutants.results import Outcome, Result, Results, Way
from lab.mutants.run import ControlFailed, Plan, Runner
from lab.stack import leftovers

FILE = "inventory/selling/rules.py"
TEST = "inventory/tests/test_rules.py::test_ten_units_sell_to_ten_and_not_to_eleven"


def mutant(name: str, old: str, new: str, test: str = TEST, **more: str) -> Mutant:
    told = {"profile": "all", "hidden": "", "accepted": "", **more}
    return Mutant(name, "area", "a bug", (Edit(FILE, old, new),), (test,), **told)


BUG = mutant("bug", "purchase.quantity > available", "purchase.quantity >= available")
HARMLESS = mutant("harmless", "the only place that decides it", "the only place to decide it")


@pytest.mark.long
def test_a_bug_is_found_a_harmless_change_is_not_and_neither_is_tried_again(tmp_path):
    told: list[str] = []
    results = Results(tmp_path / "results.jsonl")
    runner = Runner(Plan(("tests",)), results, told.append)
    assert runner.run([BUG, HARMLESS]) == [BUG, HARMLESS]

    again = Results(tmp_path / "results.jsonl")
    found, missed = again.of(BUG, "tests"), again.of(HARMLESS, "tests")
    assert found is not None
    assert (found.outcome, found.by) == ("found", TEST)
    assert missed is not None
    assert missed.outcome == "missed"
    assert Runner(Plan(("tests",)), again, told.append).run([BUG, HARMLESS]) == []
    changed = mutant("bug", "purchase.quantity > available", "False")
    assert again.of(changed, "tests") is None


@pytest.mark.long
def test_without_a_control_that_passes_nothing_is_tried(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    absent = mutant("absent", "available", "0", "inventory/tests/test_rules.py::test_not_there")
    with pytest.raises(ControlFailed, match="the tests do not pass: pytest ended with 4"):
        Runner(Plan(("tests",)), results, print).run([absent])
    assert not results.path.exists()


def test_what_is_missed_and_not_accepted_is_told_and_shown(tmp_path):
    accepted = mutant("accepted", "a", "b", accepted="nobody can notice", hidden="from nowhere")
    wide = mutant("wide", "a", "b")
    results = Results(tmp_path / "results.jsonl")
    known: list[tuple[Mutant, Way, Outcome, str]] = [
        (BUG, "tests", "found", TEST),
        (BUG, "proof", "found", "P3, P7"),
        (HARMLESS, "tests", "missed", ""),
        (HARMLESS, "proof", "unknown", "it did not end"),
        (accepted, "tests", "missed", ""),
        (wide, "tests", "missed", ""),
        (wide, "wide", "found", TEST),
    ]
    for each, way, outcome, by in known:
        results.add(Result(each.name, each.digest, way, outcome, by, 1.0))
    everything = (BUG, HARMLESS, accepted, wide)
    assert report.missed(everything, results) == [HARMLESS]

    report.write(tmp_path / "page.md", everything, results)
    page = (tmp_path / "page.md").read_text()
    test = TEST.rpartition("::")[2]
    assert "| by the tests, of all | 4 | 4 | 2 | 50 % |" in page
    assert "| by the proof, of those visible from outside | 3 | 2 | 1 | 50 % |" in page
    assert "Found by nothing that was tried: `harmless`, `accepted`." in page
    assert f"| `bug` | a bug | `{test}` | P3, P7 |  |" in page
    assert "| `harmless` | a bug | **missed** | **unknown**: it did not end |  |" in page
    assert "hidden | accepted: nobody can notice; from nowhere |" in page


SLOW = """
import time
from pathlib import Path
from inventory.redis import client

def test_slow():
    Path("pid").write_text(str(client().info("server")["process_id"]))
    time.sleep(60)
"""
"""Its Redis is started by its fixtures, in a session of its own and under another title."""


@pytest.mark.long
def test_a_run_that_does_not_end_takes_the_servers_of_its_tests_with_it():
    with private_copy() as copy:
        (copy.tree / "inventory/tests/test_slow.py").write_text(SLOW)
        found = copy.run_tests(["inventory/tests/test_slow.py"], 20)
        assert found == ("found", "did not end in time")
        assert not psutil.pid_exists(int((copy.tree / "pid").read_text()))


@pytest.mark.long
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path):
    variables = {**os.environ, "SHOP_DATA": str(tmp_path / "data"), "PYTHONUNBUFFERED": "1"}
    for name in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE"):
        variables.pop(name, None)
    command = ["manage.py", "mutants", "--tests", "--names", "guard-without-condition"]
    with subprocess.Popen(
        [sys.executable, *command, "--results", str(tmp_path / "results.jsonl")],
        cwd=environment.PROJECT,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Control"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert [each.name for each in (tmp_path / "data" / "private").iterdir()] == ["start.lock"]
    assert leftovers.find(tmp_path) == []
