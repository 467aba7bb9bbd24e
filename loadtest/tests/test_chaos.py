"""Drawing, injecting, healing and logging faults."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import ClassVar

import pytest

from loadtest.checker.evidence import Evidence
from loadtest.fault_needs import CLOCK, DISK, FAILPOINTS
from loadtest.faults import FAULTS, Chaos, Fault, FaultFailed, Target, chaos, draw, left_out
from loadtest.faults.fault import NotRecovered, wait_until
from loadtest.files import RunFiles

TARGET = Target("http://127.0.0.1:1", 0, "", "", "", "")


class Planted(Fault):
    """Writes down what happens to it."""

    name = "planted"
    what = "nothing"
    expected = "nothing"
    lasts = (0.0, 0.0)
    happened: ClassVar[list[str]] = []
    fails: ClassVar[int] = 0

    def inject(self) -> None:
        self.happened.append("injected")
        self.did["drawn"] = self.random.random()
        if type(self).fails:
            type(self).fails -= 1
            raise FaultFailed("not now")

    def heal(self) -> None:
        self.happened.append("healed")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> type[Planted]:
    monkeypatch.setitem(FAULTS, "planted", Planted)
    monkeypatch.setattr(chaos, "BETWEEN", (0.0, 0.01))
    monkeypatch.setattr(chaos, "REST", 0.01)
    Planted.happened.clear()
    Planted.fails = 0
    return Planted


def logged(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_the_same_seed_draws_the_same_and_another_seed_something_else() -> None:
    def first(seed: int) -> list[tuple[float, str, float]]:
        drawn = islice(draw(list(FAULTS), seed), 60)
        return [(pause, name, random.random()) for pause, name, random in drawn]

    assert first(7) == first(7)
    assert first(7) != first(8)


def test_faults_come_every_5_to_15_seconds_and_all_before_one_comes_again() -> None:
    drawn = list(islice(draw(list(FAULTS), 1), 3 * len(FAULTS)))
    assert all(5 <= pause <= 15 for pause, _, _ in drawn)
    for number in range(3):
        part = drawn[number * len(FAULTS) : (number + 1) * len(FAULTS)]
        assert sorted(name for _, name, _ in part) == sorted(FAULTS)


def test_what_is_injected_is_healed_and_logged_as_the_checker_reads_it(
    planted: type[Planted], tmp_path: Path
) -> None:
    files = RunFiles(tmp_path)
    trouble = Chaos(["planted"], TARGET, 3, files.faults)
    trouble.start()
    wait_until("three faults", lambda: len(trouble.injected) >= 3)
    trouble.stop()
    assert planted.happened == ["injected", "healed"] * len(trouble.injected)
    lines = logged(files.faults)
    assert len(lines) == len(trouble.injected)
    assert all(line["did"] and not line["error"] for line in lines)
    with Evidence(enough={}) as evidence:
        evidence.load(files)
        assert evidence.value('SELECT count(*) FROM fault WHERE start <= "end"') == len(lines)


def test_a_fault_that_wants_stock_is_current_before_it_strikes(
    planted: type[Planted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is the current one, an empty sale is restocked at once."""
    monkeypatch.setattr(planted, "wants_stock", True)
    monkeypatch.setattr(chaos, "RESTOCKED", 60.0)
    trouble = Chaos(["planted"], TARGET, 3, tmp_path / "faults.log")
    trouble.start()
    wait_until("it is current", lambda: trouble.current is not None)
    assert planted.happened == []
    trouble.stop()
    assert planted.happened == ["injected", "healed"]


def test_a_fault_that_cannot_be_injected_is_healed_and_tried_again(
    planted: type[Planted], tmp_path: Path
) -> None:
    planted.fails = 2
    trouble = Chaos(["planted"], TARGET, 3, tmp_path / "faults.log", times=1)
    trouble.start()
    wait_until("it is through", lambda: trouble.done)
    assert planted.happened == ["injected", "healed"] * 3
    assert (len(trouble.failed), len(trouble.injected)) == (2, 1)
    assert [line["error"] for line in logged(tmp_path / "faults.log")] == [
        *["FaultFailed: not now"] * 2,
        "",
    ]


def test_a_fault_that_never_can_is_given_up(planted: type[Planted], tmp_path: Path) -> None:
    planted.fails = 99
    trouble = Chaos(["planted"], TARGET, 3, tmp_path / "faults.log", times=1)
    trouble.start()
    wait_until("it is through", lambda: trouble.done)
    assert (len(trouble.failed), trouble.injected) == (chaos.TRIES, [])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_target_that_does_not_recover_gets_no_further_fault(
    when: str, planted: type[Planted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise NotRecovered("a standby stands still")

    monkeypatch.setattr(planted, "inject" if when == "before" else "heal", fail)
    trouble = Chaos(["planted"], TARGET, 3, tmp_path / "faults.log")
    trouble.start()
    wait_until("it is through", lambda: trouble.done)
    [failed] = trouble.failed
    assert (trouble.injected, failed.healed) == ([], False)
    assert failed.error.endswith("NotRecovered: a standby stands still")


@pytest.mark.parametrize(("abandoned", "healed"), [(True, []), (False, ["healed"])])
def test_stopping_waits_for_the_healing_alone_and_an_abandoned_fault_is_not_healed(
    abandoned: bool,
    healed: list[str],
    planted: type[Planted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Healing starts servers, on hosts that are being removed."""
    monkeypatch.setattr(planted, "lasts", (60.0, 60.0))
    trouble = Chaos(["planted"], TARGET, 3, tmp_path / "faults.log")
    trouble.start()
    wait_until("it is on", lambda: planted.happened == ["injected"])
    if abandoned:
        trouble.abandon()
    trouble.stop()
    assert planted.happened == ["injected", *healed]
    assert trouble.current is None


def test_a_target_says_what_faults_have_to_be_left_out() -> None:
    assert left_out(["web-killed", "clock-stepped", "disk-full"], TARGET.has()) == {
        "clock-stepped": CLOCK,
        "disk-full": DISK,
    }
    assert FAILPOINTS in left_out(["holder-paused"], TARGET.has())["holder-paused"]


def test_a_target_serves_as_a_file(tmp_path: Path) -> None:
    TARGET.write(tmp_path / "target.json")
    assert Target.read(tmp_path / "target.json") == TARGET
    assert (tmp_path / "target.json").stat().st_mode & 0o077 == 0, "it holds passwords"


def test_every_fault_says_what_it_does_and_what_is_expected() -> None:
    for name, kind in FAULTS.items():
        assert kind.name == name
        assert kind.what
        assert kind.expected
        assert 0 <= kind.lasts[0] <= kind.lasts[1] <= 4
