"""The parts of a proof under faults; the whole of it is what `.ci/run` runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from development import StackError
from development.tests.psp import Psp
from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, LOCKED
from lab import environment
from lab.proof import controls, progress, sabotage, testbed
from lab.proof.controls import CONTROLS
from lab.proof.load import only_guarded
from lab.proof.progress import Deadline, Stalled
from lab.proof.result import Result
from lab.proof.run import FaultRun, LocalSales
from lab.proof.sabotage import SABOTAGE
from lab.proof.testbed import misbehave
from loadtest.checker import Finding, Verdict
from loadtest.checker.tables import rewrite
from loadtest.fault_log import Injected
from loadtest.faults import FAULTS, Fault, Target, chaos
from loadtest.faults.fault import wait_until
from loadtest.files import RunFiles
from loadtest.history import Operation, Recorder, operations
from loadtest.run import Show
from loadtest.run_plan import RunPlan
from loadtest.shops.flash_sale.answers import classify

pytestmark = pytest.mark.django_db


def call(recorder: Recorder, number: int, op: str, status: int, order: str | None = None) -> None:
    name = f"c#{number}"
    recorder.invoke(Operation(0, name, op, client="c", buyer="c", key=name, quantity=1, sale="7"))
    code = "sold_out" if status == 409 else ""
    outcome = classify(status, code, order, op=op)
    recorder.complete(name, outcome, status=status, order=order, code=code)


def counted(history: Path, sale: int, *faults: Injected) -> Result:
    result = Result(sale, Verdict(), faults=list(faults))
    result.count([history], 0.0)
    return result


@pytest.mark.long
def test_history_shows_when_a_sale_was_sold_out_and_sold_again(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.jsonl")
    recorder.invoke(
        Operation(0, "c#1", "order", client="c", buyer="c", key="c#1", quantity=1, sale="7")
    )
    call(recorder, 2, "order", 201, "2")
    call(recorder, 3, "order", 409)
    recorder.complete("c#1", "ok", status=201, order="1")  # it came in time, and hears it late
    call(recorder, 4, "look", 200)
    call(recorder, 5, "order", 201, "5")  # a unit that came back
    recorder.close()
    calls = {operation.call: operation for operation in operations(recorder.path)}
    first, last = calls["c#1"], calls["c#5"]
    faults = [Injected("x", 0, 1, lost_at=at) for at in (first.end, last.end + 1, None)]
    seen = counted(recorder.path, 7, *faults)
    assert (seen.operations, seen.seconds) == (5, last.end / 1e9)
    assert seen.sold_out_after == first.end / 1e9
    assert seen.after_loss == [round((last.end - first.end) / 1e9, 2), None, None]
    assert counted(recorder.path, 8).sold_out_after == 0


def outcome(*failed: str, unsettled: str = "", reason: str = "") -> str:
    findings = [Finding(each, "", "fail", "") for each in failed]
    verdict = Verdict([Finding("P1", "", "pass", ""), *findings], {})
    return Result(1, verdict, 1.0, reason, unsettled).outcome


def test_verdict_is_unknown_while_servers_do_not_recover():
    still = "postgres2 is not healthy"
    assert outcome(unsettled=still, reason=still) == "unknown"
    assert outcome("P12", "P10", unsettled=still, reason=still) == "unknown"
    assert outcome("P12", "P3", unsettled=still, reason=still) == "fail"
    assert outcome("P12") == "fail"


def test_properties_have_a_control_with_what_it_needs() -> None:
    reddened = {redden for control in CONTROLS for redden in control.reddens}
    assert {f"P{number}" for number in range(1, 21)} - reddened == {"P4", "P6", "P8", "P13"}
    assert [control.name for control in CONTROLS if not control.reddens] == ["nothing"]
    assert {*controls.QUICK} <= {control.name for control in CONTROLS}
    assert {control.sabotage for control in CONTROLS} - {""} == set(SABOTAGE)
    altered = {
        control.name for control in CONTROLS if any("ALTER" in sql for sql in control.before)
    }
    assert altered == {control.name for control in CONTROLS if control.after}


@pytest.mark.parametrize(
    ("of_the_shop", "of_the_process"),
    [("", "admission,lock"), ("lock,guard", "admission,lock,guard")],
)
def test_guard_control_switches_everything_else_off(
    of_the_shop: str, of_the_process: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_WITHOUT", of_the_shop)
    assert only_guarded(None)["LAB_WITHOUT"] == of_the_process


def test_provider_misbehaves_as_configured(psp: Psp) -> None:
    def setting(name: str) -> float:
        return json.loads(psp.call("behaviour"))[name]

    misbehave(psp.url, decline=0.05, copies=2)
    assert (setting("decline"), setting("copies"), setting("lost")) == (0.05, 2, 0)
    misbehave(psp.url, lost=0.03)
    assert (setting("decline"), setting("lost")) == (0, 0.03), "replaced, not added to"
    misbehave(psp.url)
    assert setting("lost") == 0
    with pytest.raises(StackError, match="generosity"):
        misbehave(psp.url, generosity=1)
    with pytest.raises(StackError, match="does not answer"):
        misbehave("http://127.0.0.1:1", lost=0.1)


PAGE = (environment.PROJECT / "docs" / "correctness.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_document_has_the_table_of_the_property_classes():
    assert rewrite(PAGE) == PAGE


def test_document_lists_every_fault_with_its_expectation():
    expected = [[f"`{name}`", fault.what, fault.expected] for name, fault in FAULTS.items()]
    assert rows("Faults") == expected


def test_document_lists_every_control_with_its_property():
    listed = {row[0].strip("`"): row[2] for row in rows("Has the checker ever failed?")}
    assert listed == {
        control.name: " or ".join(control.reddens) or "nothing: all must hold"
        for control in CONTROLS
    }


@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage_replaces_functions_that_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That its bug turns the property red, its control shows."""
    found = SABOTAGE[name]
    module = import_module(found.module)
    original = getattr(module, found.name)
    monkeypatch.setattr(module, found.name, original)  # restored afterwards
    sabotage.commit(name)
    assert getattr(module, found.name) != original


HIT = """
import sys
from inventory.hooks import hooks
from lab.proof.sabotage import obey
obey(sys.argv[1])
for failpoint in sys.argv[2:]:
    hooks.failpoint(failpoint)
"""


def passes(folder: Path, *points: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HIT, str(folder), *points])


def test_kill_fault_kills_one_process_and_names_it(tmp_path):
    (tmp_path / AFTER_COMMIT).write_text("kill")
    both = [passes(tmp_path, BEFORE_COMMIT, AFTER_COMMIT) for _ in range(2)]
    codes = {process.pid: process.wait(30) for process in both}
    assert sorted(codes.values()) == [-signal.SIGKILL, 0]
    [taken] = tmp_path.iterdir()
    assert codes[int(taken.suffix[1:])] == -signal.SIGKILL


def test_stopped_process_goes_on_when_continued(tmp_path):
    (tmp_path / LOCKED).write_text("stop")
    process = passes(tmp_path, LOCKED)
    pid, status = os.waitpid(process.pid, os.WUNTRACED)
    assert (pid, os.WIFSTOPPED(status)) == (process.pid, True)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0


SOON = 0.1


def take_too_long(step: str, wait: Callable[[], object]) -> None:
    with Deadline() as limit:
        limit.begin(step, SOON)
        wait()


def test_step_that_takes_too_long_is_interrupted(monkeypatch):
    monkeypatch.setattr(progress, "AGAIN", SOON)
    silent, other = socket.socketpair()

    def wait_and_clean_up() -> None:
        try:
            silent.recv(1)
        finally:
            silent.recv(1)

    with silent, other, pytest.raises(Stalled, match=r"within 0\.1 s: reading"):
        take_too_long("reading", wait_and_clean_up)


def test_step_has_its_own_time_which_does_not_begin_anew():
    with Deadline() as limit:

        def repeat_the_last() -> None:
            while True:
                limit.begin("the last", SOON)

        for number in range(3):
            limit.begin(f"step {number}", 60)
        with pytest.raises(Stalled, match="the last"):
            repeat_the_last()


@pytest.mark.parametrize(("stays", "command"), [(True, "python3"), (False, "")])
def test_books_command_is_named_only_where_the_books_stay(
    stays: bool, command: str, tmp_path: Path
) -> None:
    shop = testbed.Testbed("http://127.0.0.1:1", stays=stays)
    sales = LocalSales(shop, RunFiles(tmp_path), Show())
    sales.plan = RunPlan(buyers=1, seed=1, sale="7")
    assert sales.books_command.partition(" ")[0] == command


class NeverHealed(Fault):
    """A fault whose heal waits for something that does not come."""

    name = "never-healed"
    what = expected = "nothing"
    lasts = (0.0, 0.0)
    heals: ClassVar[threading.Event] = threading.Event()
    over: ClassVar[threading.Event] = threading.Event()

    def inject(self) -> None:
        """Inject nothing."""

    def heal(self) -> None:
        self.heals.set()
        self.over.wait()


def test_proof_ends_although_its_fault_is_never_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAULTS, NeverHealed.name, NeverHealed)
    monkeypatch.setattr(chaos, "BETWEEN", (0.0, 0.0))
    plan = RunPlan(buyers=1, seed=1, faults=(NeverHealed.name,), compose="planted")
    shop = testbed.Testbed("http://127.0.0.1:1", target=Target("", 0, "", "", "", ""))
    sales = LocalSales(shop, RunFiles(tmp_path), Show())
    sales.plan = replace(plan, sale="1")
    run = FaultRun(plan, sales)

    def prove() -> None:
        with run.breaking():
            assert not run.over()
            wait_until("it is being healed", NeverHealed.heals.is_set)
            take_too_long("selling, fault 1", threading.Event().wait)

    with pytest.raises(Stalled, match="fault 1"):
        prove()
    assert run.failed == run.injected == []
    NeverHealed.over.set()
