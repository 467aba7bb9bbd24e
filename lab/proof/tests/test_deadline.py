"""Every proof has an end: a step that takes too long is interrupted, whatever it waits for."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from rich.console import Console

from lab.proof import deadline
from lab.proof.deadline import Deadline, Stalled
from lab.proof.fault_run import FaultRun
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.show import Lines, step
from loadtest.checker import Verdict
from loadtest.checker.verdict import Finding
from loadtest.faults import FAULTS, Fault, Target, chaos
from loadtest.faults.fault import wait_until
from loadtest.steps import RunFiles, RunPlan

SOON = 0.1


def take_too_long(step: str, wait: Callable[[], object]) -> None:
    with Deadline() as limit:
        limit.begin(step, SOON)
        wait()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A connection on which nothing arrives."""
    one, other = socket.socketpair()
    with one, other:
        yield one


def test_a_step_that_takes_too_long_is_interrupted_and_named(silent):
    with pytest.raises(Stalled, match=r"within 0\.1 s: reading"):
        take_too_long("reading", lambda: silent.recv(1))


def test_a_wait_for_another_thread_is_interrupted_too():
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    with pytest.raises(Stalled):
        take_too_long("waiting", other.join)
    over.set()
    other.join()


def test_a_clean_up_that_hangs_is_interrupted_too(silent, monkeypatch):
    monkeypatch.setattr(deadline, "AGAIN", SOON)

    def wait_and_clean_up() -> None:
        try:
            silent.recv(1)
        finally:
            silent.recv(1)

    with pytest.raises(Stalled):
        take_too_long("reading", wait_and_clean_up)


def test_each_step_has_its_own_time_and_the_same_step_does_not_begin_anew():
    with Deadline() as limit:

        def repeat_the_last() -> None:
            while True:
                limit.begin("the last", SOON)

        for number in range(3):
            limit.begin(f"step {number}", 60)
        with pytest.raises(Stalled, match="the last"):
            repeat_the_last()


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


def test_a_proof_whose_fault_is_never_healed_ends_and_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAULTS, NeverHealed.name, NeverHealed)
    monkeypatch.setattr(chaos, "BETWEEN", (0.0, 0.0))
    plan = RunPlan(buyers=1, seed=1, faults=(NeverHealed.name,), bed="planted")
    run = FaultRun(plan, Target("", 0, "", "", "", ""), RunFiles(tmp_path))

    def prove() -> None:
        with run.open("1"):
            run.begin()
            wait_until("it is being healed", NeverHealed.heals.is_set)
            take_too_long("selling, fault 1", threading.Event().wait)

    with pytest.raises(Stalled, match="fault 1"):
        prove()
    assert run.failed == run.injected == []
    NeverHealed.over.set()


PLAN = RunPlan(buyers=1, seed=1, faults=("planted",))
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
