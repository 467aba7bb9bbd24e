"""Every flaw of the course occurs in virtual time, every time, and not in the fixed lock."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from course.exercises.catalogue import exercise
from course.lessons import LESSONS
from course.simulator.course import is_up_to_date
from course.simulator.history import Wrong
from course.simulator.lesson_report import report
from course.simulator.scenario import PRODUCTION
from course.simulator.scenarios import scenarios
from course.simulator.search import NotFound, search
from course.simulator.simulation import run_schedule

DOCUMENT = Path(__file__).parents[2] / "docs" / "locks.md"

# A position ends while clients of the production lock still hold their leases.
pytestmark = [
    pytest.mark.usefixtures("dropped_leases"),
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
]

BREAKABLE = [scenario for scenario in scenarios() if scenario.wrong is not None]


def name(scenario) -> str:
    return f"{scenario.lesson.slug}/{scenario.slug}"


def test_every_lesson_has_a_scenario_and_only_idempotency_cannot_be_broken():
    assert {scenario.lesson.number for scenario in scenarios()} == set(range(1, 15))
    unbreakable = [name(scenario) for scenario in scenarios() if scenario.wrong is None]
    assert unbreakable == ["unique-index/double-refund"]
    assert {lesson.slug for lesson in LESSONS} - {one.lesson.slug for one in BREAKABLE} == {
        "unique-index"
    }


@pytest.mark.parametrize("scenario", BREAKABLE, ids=name)
def test_the_scenario_breaks_its_lesson_the_same_way_every_time(scenario):
    first = search(scenario.experiment, scenario.fault_model, scenario.wrong)
    again = search(scenario.experiment, scenario.fault_model, scenario.wrong)
    assert first.schedule == again.schedule
    assert first.run.history == again.run.history
    assert first.run.violations[-1].wrong is scenario.wrong


@pytest.mark.parametrize("scenario", BREAKABLE, ids=name)
def test_the_schedule_alone_repeats_it(scenario):
    found = search(scenario.experiment, scenario.fault_model, scenario.wrong)
    assert run_schedule(scenario.experiment, found.schedule).history == found.run.history


@pytest.mark.parametrize("scenario", BREAKABLE, ids=name)
def test_no_deviation_of_the_schedule_could_be_left_out(scenario):
    found = search(scenario.experiment, scenario.fault_model, scenario.wrong)
    for left_out in range(len(found.schedule)):
        shorter = found.schedule[:left_out] + found.schedule[left_out + 1 :]
        assert not run_schedule(scenario.experiment, shorter).has(scenario.wrong)


@pytest.mark.parametrize("scenario", BREAKABLE, ids=name)
def test_the_same_schedule_does_not_break_the_lock_that_mends_it(scenario):
    played = report(scenario)
    assert played.mended_well, [str(one) for one in played.mended.violations]


FENCED = [
    scenario
    for scenario in BREAKABLE
    if scenario.mended_by == PRODUCTION and scenario.wrong is Wrong.STALE_WRITE
]


@pytest.mark.parametrize("scenario", FENCED, ids=name)
def test_where_the_fence_mends_it_the_timeline_shows_its_refusal(scenario):
    played = report(scenario)
    refusals = [row for row in played.mended_rows() if row.answer.startswith("refused")]
    assert len(refusals) == played.mended.refused == 1


def test_two_refunds_of_one_order_pay_once_in_any_order():
    (scenario,) = (one for one in scenarios() if one.wrong is None)
    for wrong in Wrong:
        with pytest.raises(NotFound):
            search(scenario.experiment, scenario.fault_model, wrong)


def test_all_lessons_together_are_broken_in_less_than_two_seconds_each():
    """Lessons are interactive, so this is the one test that bounds a time."""
    for scenario in BREAKABLE:
        assert scenario.wrong is not None
        began = time.process_time()
        search(scenario.experiment, scenario.fault_model, scenario.wrong)
        assert time.process_time() - began < 2.0, name(scenario)


def test_the_course_is_what_the_simulator_writes_today():
    assert is_up_to_date(DOCUMENT), "run `python -m course.simulator course`"


def test_the_course_shows_every_scenario_and_exercise_and_stays_short():
    text = DOCUMENT.read_text(encoding="utf-8")
    shown = [one for one in scenarios() if f"<!-- picture: {name(one)} -->" in text]
    assert shown == list(scenarios())
    for lesson in LESSONS:
        chapter = text.partition(f"\n## {lesson.number}. ")[2].partition("\n## ")[0]
        assert f"**Exercise.** {exercise(lesson).task}" in chapter
    assert len(text.split()) <= 5_000
