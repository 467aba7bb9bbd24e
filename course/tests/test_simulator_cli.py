"""The commands, as people and programs run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from course.lessons import LESSONS
from course.simulator.cli import main
from course.simulator.course import up_to_date
from course.simulator.explore import Exploration, acts_named, explore, run_chunk, run_seed
from course.simulator.explored_locks import EXPLORED_LOCKS
from course.simulator.history import Kind, Wrong
from course.simulator.production import MODULES
from course.simulator.schedule import Act
from course.simulator.virtual import inside_simulation

# A client that crashes in the simulation drops its lease.
pytestmark = [
    pytest.mark.usefixtures("dropped_leases"),
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
]


def test_the_list_names_every_lesson(capsys):
    assert main(["lesson"]) == 0
    out = capsys.readouterr().out
    assert all(lesson.slug in out for lesson in LESSONS)


@pytest.mark.parametrize("lesson", [lesson.slug for lesson in LESSONS])
def test_a_lesson_is_shown_broken_and_mended(capsys, lesson):
    assert main(["lesson", lesson]) == 0
    out = capsys.readouterr().out
    if lesson != "unique-index":
        assert "✗" in out
        assert "Fixed by" in out
        assert "The failure does not occur." in out


def test_a_lesson_as_json_has_both_histories_and_the_schedule(capsys):
    assert main(["lesson", "1", "--json"]) == 0
    (values,) = json.loads(capsys.readouterr().out)
    assert values["wrong"] == "nobody can ever enter"
    assert values["schedule"] == [
        {
            "client": "A",
            "phase": "acquire",
            "step": 2,
            "act": "crash",
            "target": "",
            "seconds": 0.0,
        }
    ]
    assert values["broken"]["events"][0]["what"] == "SETNX stock 1"
    assert values["broken"]["violations"][-1]["wrong"] == values["wrong"]
    assert values["mended"]["well"]


def test_a_lesson_as_mermaid_is_a_sequence_diagram(capsys):
    assert main(["lesson", "watchdog", "--scenario", "pause", "--mermaid"]) == 0
    out = capsys.readouterr().out
    assert out.count("sequenceDiagram") == 1
    assert "A->>resource: 17.002  WRITE" in out


@pytest.mark.parametrize(
    "words",
    [
        ["lesson", "nope"],
        ["lesson", "1", "--scenario", "nope"],
        ["explore", "--faults", "flood"],
    ],
)
def test_a_wrong_name_is_a_clear_error(capsys, words):
    assert main(words) == 2
    assert "no such" in capsys.readouterr().err.replace("no lesson", "no such lesson")


@pytest.mark.long
def test_a_search_that_finds_nothing_shows_the_fence_at_work(capsys):
    assert main(["explore", "--schedules", "500", "--seed", "10000", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "No violation." in out
    assert "refused: " in out


@pytest.mark.long
def test_a_search_that_finds_something_exits_with_1_and_the_seed_repeats_it(capsys):
    words = ["explore", "--no-fence", "--json", "--processes", "1"]
    assert main([*words, "--schedules", "1000", "--seed", "40000"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["violations"][0]["wrong"] == "a stale write accepted"
    seed = values["finding"]["seed"]
    assert main([*words, "--schedules", "1", "--seed", str(seed)]) == 1
    assert json.loads(capsys.readouterr().out)["finding"] == values["finding"]


@pytest.mark.long
def test_a_search_in_several_processes_finds_what_one_process_finds():
    what = Exploration()
    one = run_chunk(what, 7, 200)
    several = explore(what, schedules=200, seed=7, processes=2)
    assert (several.schedules, several.steps, several.overlaps, several.refused) == (
        one.schedules,
        one.steps,
        one.overlaps,
        one.refused,
    )


def test_a_seed_always_gives_the_same_schedule():
    def history(seed: int):
        with inside_simulation(MODULES):
            run, made = run_seed(Exploration(), seed)
        return [(event.at, event.who, event.kind) for event in run.history], made

    assert history(483) == history(483)
    assert history(483) != history(484)


def test_a_read_write_lock_is_searched_by_its_name_and_shown_with_its_roles(capsys):
    words = ["explore", "--lock", "redis-rw", "--schedules", "40", "--seed", "50"]
    assert main([*words, "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "shared_acquire.lua w-" in out
    assert "--lock redis-rw --schedules 1 --seed 68" in out


@pytest.mark.long
@pytest.mark.parametrize("lock", ["redis-rw", "redis-semaphore"])
def test_holders_really_share_in_the_simulation(lock):
    """Otherwise the search would not test what these locks are for."""
    most, what = 0, Exploration(acts=frozenset({Act.SWITCH}), target=EXPLORED_LOCKS[lock])
    with inside_simulation(MODULES):
        for seed in range(50):
            run, _ = run_seed(what, seed)
            inside = 0
            for event in run.history:
                inside += (event.kind is Kind.ENTER) - (event.kind is Kind.LEAVE)
                most = max(most, inside)
    assert most >= 2


@pytest.mark.long
def test_after_a_fail_over_a_stale_write_is_still_refused_and_life_goes_on():
    what = Exploration(acts=acts_named(["fail-over", "pause", "crash"]))
    assert Wrong.STALE_WRITE in what.checks
    tally = run_chunk(what, 0, 800)
    assert tally.violations == []
    assert tally.refused > 0


@pytest.mark.long
def test_a_chunk_without_faults_has_no_late_holders():
    tally = run_chunk(Exploration(acts=frozenset({Act.SWITCH})), 0, 500)
    assert (tally.violations, tally.overlaps, tally.refused) == ([], 0, 0)


def test_the_course_is_written_into_a_document_with_its_pictures(tmp_path):
    document = tmp_path / "course.md"
    document.write_text(
        "<!-- code: setnx-expire release -->\n\n<!-- picture: setnx-expire/crash -->\nafter\n"
    )
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "old.svg").write_text("of a scenario that is gone")
    assert main(["course", "--check", str(document)]) == 1
    assert main(["course", str(document)]) == 0
    assert main(["course", "--check", str(document)]) == 0
    assert "self._client.delete(self._name)" in document.read_text()
    pictures = {path.name: path.read_text() for path in (tmp_path / "locks").iterdir()}
    assert set(pictures) == {"setnx-expire-crash.svg", "setnx-expire-crash-mended.svg"}
    assert "✗ nobody can ever enter" in pictures["setnx-expire-crash.svg"]
    assert "✗" not in pictures["setnx-expire-crash-mended.svg"]


@pytest.mark.parametrize("block", ["picture: setnx-expire/nope", "code: setnx-expire nope"])
def test_the_course_refuses_what_does_not_exist(block):
    with pytest.raises(KeyError):
        up_to_date(f"<!-- {block} -->\n")


def test_it_runs_without_django(tmp_path):
    code = (
        "import sys\n"
        "from course.simulator.cli import main\n"
        "code = main(['lesson', 'setnx-expire'])\n"
        "assert 'django' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
