"""A soak: drawn by its seed, continued where it was stopped, bounded on disk, added up."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from lab.proof.soak import STRATEGIES, draw_round, soak


class Interrupted(Exception):
    """As by Ctrl-C."""


class Played:
    """Plays rounds as on a list, instead of proofs."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], log: Path, seconds: float) -> str:
        self.commands.append(command)
        if not self.verdicts:
            raise Interrupted
        file = Path(command[command.index("--json") + 1])
        verdict = self.verdicts.pop(0)
        if verdict != "nothing":
            file.write_text(json.dumps(result(verdict)))
        return "no result; exit code 1"


def result(verdict: str) -> dict[str, Any]:
    finding = {"id": "P1", "name": "no oversell", "verdict": verdict, "detail": "2 too many"}
    fault = {"fault": "redis-killed", "did": {}, "start": 1, "end": 2}
    return {
        "verdict": verdict,
        "reason": "",
        "properties": [{**finding, "evidence": ["x" * 1000] * 10}],
        "counts": {"ok": 3, "fail": 1, "info": 1, "orders": 3, "oversold": 0},
        "operations": 1000,
        "faults": [fault, fault],
        "repeat": "make prove",
    }


def played(folder: Path, *verdicts: str, seed: int = 7) -> tuple[Played, list[str]]:
    rounds, lines = Played(*verdicts), list[str]()
    with (
        patch("lab.proof.soak._execute", rounds),
        pytest.raises(Interrupted),
    ):
        soak(folder, lines.append, seed=seed, minutes=60, round_minutes=1)
    return rounds, lines


def test_rounds_are_drawn_by_the_seed_and_differ() -> None:
    drawn = [draw_round(7, number, STRATEGIES) for number in range(200)]
    assert drawn == [draw_round(7, number, STRATEGIES) for number in range(200)]
    assert drawn[0] != draw_round(8, 0, STRATEGIES)
    assert {each["strategy"] for each in drawn} == set(STRATEGIES)
    assert {each["mix"] for each in drawn} == {"all", "carts", "rush", "doubles"}


def test_evidence_of_a_pass_is_deleted_and_the_sums_are_written(tmp_path: Path) -> None:
    _, lines = played(tmp_path, "pass", "fail", "nothing")
    kept = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert kept == ["0002", "0003", "0004"], "all but the first, and the one that was interrupted"
    assert "FAIL (P1 fail: 2 too many)" in lines[1]
    assert "no result" in lines[2]
    page = (tmp_path / "summary.md").read_text()
    assert "3 rounds in 0.0 min: 1 pass, 1 fail, 1 unknown" in page
    assert "2,000 operations recorded, 4 faults injected" in page
    assert "round 2: fail" in page
    assert len((tmp_path / "rounds.jsonl").read_text()) < 3000


def test_a_soak_continues_where_it_was_stopped(tmp_path: Path) -> None:
    first, _ = played(tmp_path, "pass")
    again, _ = played(tmp_path, "pass", "pass", seed=99)
    assert again.commands[0] == first.commands[1], "the same round comes again, by the same seed"
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == 3


def test_no_round_begins_when_the_minutes_are_over(tmp_path: Path) -> None:
    assert soak(tmp_path, print, seed=7, minutes=0, round_minutes=1)["rounds"] == 0


def test_a_short_soak_is_one_short_round_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = Played("pass")
    with (
        patch("lab.proof.soak._execute", rounds),
        patch("lab.proof.soak.time", SimpleNamespace(monotonic=iter([0, 0, 0, 90, 90]).__next__)),
        pytest.raises(SystemExit, match="0"),
    ):
        call_command("soak", minutes=1.0, folder=tmp_path)
    [command] = rounds.commands
    assert command[command.index("--minutes") + 1] == "1.0"
    shown = " ".join(capsys.readouterr().out.split())
    assert "Soaking for 1 min, in rounds of 1 min and their start and verdict" in shown
    assert "1 round in 1.5 min" in shown


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("bench", "--concurrency", "0"),
        ("prove", "--arrivals", "nan"),
        ("prove", "--minutes", "-1"),
        ("prove", "--report", "/"),
        ("soak", "--minutes", "inf"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(command: str, option: str, value: str) -> None:
    with pytest.raises(CommandError, match=option):
        call_command(command, f"{option}={value}")


@pytest.mark.parametrize(
    ("command", "options", "reason"),
    [
        ("prove", ["--seed=-7"], "--seed"),
        ("prove", ["--bed=web", "--fault=redis-killed"], "redis-killed: not for this bed"),
        ("soak", ["--minutes=0"], "above 0"),
        ("soak", ["--round=0"], "above 0"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_exit_code_2(
    command: str, options: list[str], reason: str
) -> None:
    with pytest.raises(CommandError, match=reason) as refused:
        call_command(command, *options)
    assert refused.value.returncode == 2
