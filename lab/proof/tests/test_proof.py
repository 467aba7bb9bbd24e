"""The parts of a proof under faults; the whole of it is what `.ci/run` runs."""

from __future__ import annotations

from pathlib import Path

from lab.proof import controls
from lab.proof.progress import Tally
from lab.proof.result import run_statistics
from lab.proof.sabotage import SABOTAGE
from loadtest.faults import FAULTS, Injected
from loadtest.history import Recorder, operations
from loadtest.scenarios import MIXES
from loadtest.shops.flash_sale.answers import classify


def call(recorder: Recorder, number: int, op: str, status: int, order: str | None = None) -> None:
    name = f"c#{number}"
    recorder.invoke(name, op, client="c", buyer="c", key=name, quantity=1, sale="7")
    code = "sold_out" if status == 409 else ""
    outcome = classify(status, code, order, op=op)
    recorder.complete(name, outcome, status=status, order=order, code=code)


def test_the_tally_counts_whole_lines_as_they_come(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    recorder = Recorder(tmp_path / "a.jsonl")
    call(recorder, 1, "order", 201, "9")
    recorder.flush()
    assert tally.look() == {"invoke": 1, "ok": 1, "fail": 0, "info": 0}
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"event":"fail","time"')
    assert tally.look()["fail"] == 0
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write(":5}\n")
    assert tally.look()["fail"] == 1
    recorder.close()


def test_run_statistics_find_how_soon_the_shop_sold_again(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.jsonl")
    call(recorder, 1, "order", 201, "1")
    call(recorder, 2, "look", 200)
    call(recorder, 3, "order", 409)
    call(recorder, 4, "order", 201, "2")
    recorder.close()
    ends = {each.call: each.end for each in operations(recorder.path)}
    before, after = Injected("x", 0, ends["c#1"] - 10**9), Injected("x", 0, ends["c#4"] + 1)
    between = Injected("x", 0, ends["c#1"] + 1)
    seen = run_statistics([recorder.path], [before, between, after], "7")
    assert (seen.operations, seen.last_sale) == (4, ends["c#4"])
    assert seen.sold_out == ends["c#1"]
    assert run_statistics([recorder.path], [], "8").sold_out == 0
    first, second, third = seen.recoveries
    # Nobody asked for a second after the first fault, which the shop is not blamed for.
    assert (first is not None and first < 1, third) == (True, None)
    assert second is not None
    assert 0 <= second < 1


def test_a_sale_is_sold_out_with_the_last_answer_to_who_came_in_time(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.jsonl")
    recorder.invoke("c#1", "order", client="c", buyer="c", key="c#1", quantity=1, sale="7")
    call(recorder, 2, "order", 201, "2")
    call(recorder, 3, "order", 409)
    recorder.complete("c#1", "ok", status=201, order="1")
    call(recorder, 4, "order", 201, "4")  # a unit that came back
    recorder.close()
    ends = {each.call: each.end for each in operations(recorder.path)}
    assert run_statistics([recorder.path], [], "7").sold_out == ends["c#1"]


def test_the_controls_name_what_they_switch_off_and_what_must_turn_red() -> None:
    names = [control.name for control in controls.CONTROLS]
    assert len(set(names)) == len(names)
    assert set(controls.QUICK) <= set(names)
    assert [control.name for control in controls.CONTROLS if not control.reddens] == ["nothing"]
    reddened = {each for control in controls.CONTROLS for each in control.reddens}
    assert {f"P{number}" for number in range(1, 21)} - reddened == {"P4", "P6", "P8", "P13"}
    for control in controls.CONTROLS:
        assert bool(control.before) == bool(control.after)
        assert set(control.faults) <= set(FAULTS)
        assert control.mix in MIXES
        assert not control.sabotage or control.sabotage in SABOTAGE
    assert {control.sabotage for control in controls.CONTROLS} - {""} == set(SABOTAGE)
