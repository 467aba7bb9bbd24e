"""Every proof has an end: a step that takes too long is interrupted, whatever it waits for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from lab.proof import progress
from lab.proof.fault_run import FaultRun
from lab.proof.progress import Deadline, Stalled
from loadtest.faults import FAULTS, Fault, Target, chaos
from loadtest.faults.fault import wait_until
from loadtest.steps import RunFiles, RunPlan

SOON = 0.1


def take_too_long(step: str, wait: Callable[[], object]) -> None:
    with Deadline() as limit:
        limit.begin(step, SOON)
        wait()


def test_a_step_that_takes_too_long_is_interrupted_and_named():
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    with pytest.raises(Stalled, match=r"within 0\.1 s: waiting"):
        take_too_long("waiting", other.join)
    over.set()
    other.join()


def test_a_clean_up_that_hangs_is_interrupted_too(monkeypatch):
    monkeypatch.setattr(progress, "AGAIN", SOON)
    silent, other = socket.socketpair()

    def wait_and_clean_up() -> None:
        try:
            silent.recv(1)
        finally:
            silent.recv(1)

    with silent, other, pytest.raises(Stalled):
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
