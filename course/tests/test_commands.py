"""The commands, as users and programs run them."""

import json
import re

import pytest

from course.simulator.history import Wrong
from course.simulator.schedule import Act
from course.simulator.search import Exploration, explore, run_seeds
from course.tests.conftest import explore_command as search
from course.tests.conftest import lesson_command as lesson


def test_lesson_json_has_both_histories_and_the_schedule(capsys):
    assert lesson("1", "--json") == 0
    (values,) = json.loads(capsys.readouterr().out)
    assert values["wrong"] == "nobody can ever enter"
    (deviation,) = values["schedule"]
    assert {**deviation, "act": "crash", "phase": "acquire", "step": 2} == deviation
    assert values["broken"]["events"][0]["what"] == "SETNX stock 1"
    assert values["broken"]["violations"][-1]["wrong"] == values["wrong"]
    assert values["mended"]["well"]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lesson, ["nope"]),
        (lesson, ["1", "--scenario", "nope"]),
        (search, ["--faults", "flood"]),
    ],
)
def test_lesson_command_refuses_an_unknown_name(capsys, run, words):
    assert run(*words) == 2
    assert "no such" in capsys.readouterr().err.replace("no lesson", "no such lesson")


@pytest.mark.parametrize("options", [["--mine", "lock.py"], ["--start", "lock.py"], ["--hint"]])
def test_lesson_command_refuses_an_option_without_a_lesson(capsys, options):
    assert lesson(*options) == 2
    assert f"name the lesson that {options[0]} is about" in capsys.readouterr().err


@pytest.mark.long
def test_explore_exits_with_1_and_its_seed_repeats_the_failure(capsys):
    words = ["--no-fence", "--processes", "1"]
    assert search(*words, "--schedules", "1000", "--seed", "40000") == 1
    found = capsys.readouterr().out.partition("The shortest history of: ")[2]
    assert found.startswith("a stale write accepted")
    [seed] = re.findall(r"--seed (\d+)", found)
    assert search(*words, "--schedules", "1", "--seed", seed) == 1
    assert capsys.readouterr().out.partition("The shortest history of: ")[2] == found


@pytest.mark.parametrize("count", ["0", "-4"])
@pytest.mark.parametrize("option", ["--schedules", "--processes"])
def test_explore_refuses_a_search_of_nothing(option, count, capsys):
    assert search(option, count) == 2
    assert f"at least one of {option}" in capsys.readouterr().err


@pytest.mark.long
def test_explore_in_several_processes_finds_the_same_as_in_one(monkeypatch):
    monkeypatch.setattr("course.simulator.search.CHUNK", 20)
    one = run_seeds(Exploration(), range(7, 57))
    assert explore(Exploration(), schedules=50, seed=7, processes=2) == one


@pytest.mark.long
def test_search_of_a_sample_finds_nothing():
    """`.ci/nightly` runs more of them."""
    tally = run_seeds(Exploration(), range(100))
    assert tally.violations == []
    assert tally.overlaps > 0, "no holder was ever late: the search proves nothing"


@pytest.mark.long
@pytest.mark.parametrize(
    ("acts", "seeds", "refusals"),
    [({Act.FAIL_OVER, Act.PAUSE, Act.CRASH}, 1000, True), (set(), 100, False)],
)
def test_stale_writes_after_a_fail_over_are_refused(acts, seeds, refusals):
    what = Exploration(acts=frozenset({Act.SWITCH, *acts}))
    assert Wrong.STALE_WRITE in what.checks
    tally = run_seeds(what, range(seeds))
    assert tally.violations == []
    assert (tally.refused > 0) == (tally.overlaps > 0) == refusals
