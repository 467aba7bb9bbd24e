"""Every flaw of the course occurs in virtual time, every time, and not in the fixed lock."""

import ast
import re

import pytest

from course.lesson import find, lessons, scenarios
from course.plan import PRODUCTION
from course.position import ROOT
from course.report import MARKER, cure_title, report, with_chapters
from course.simulator.history import Kind, Wrong
from course.simulator.search import NotFound, search
from course.simulator.simulation import run_schedule
from course.simulator.timeline import rows

BREAKABLE = [scenario for scenario in scenarios() if scenario.flaw.wrong is not None]


def test_only_idempotency_cannot_be_broken():
    assert [lesson.number for lesson in lessons()] == list(range(1, 19))
    unbreakable = [scenario.id for scenario in scenarios() if scenario.flaw.wrong is None]
    assert unbreakable == ["unique-index/double-refund"]
    (scenario,) = find("unique-index").scenarios
    with pytest.raises(NotFound):
        search(scenario.experiment(), scenario.flaw.faults, *Wrong)


@pytest.mark.parametrize("scenario", BREAKABLE, ids=lambda one: one.id)
def test_a_search_always_finds_the_same_schedule_and_it_alone_repeats_the_failure(scenario):
    what, wrong = scenario.experiment(), scenario.flaw.wrong
    first, again = (search(what, scenario.flaw.faults, wrong) for _ in range(2))
    assert first.schedule == again.schedule
    assert first.run.history == again.run.history
    assert run_schedule(what, first.schedule).history == first.run.history
    for left_out in range(len(first.schedule)):
        shorter = first.schedule[:left_out] + first.schedule[left_out + 1 :]
        assert not run_schedule(what, shorter).has(wrong)


@pytest.mark.parametrize("scenario", BREAKABLE, ids=lambda one: one.id)
def test_the_same_schedule_does_not_break_the_lock_that_fixes_it(scenario):
    played = report(scenario)
    assert ", then ".join(map(str, played.schedule)) == scenario.flaw.breaks
    assert played.as_the_text_says, [str(one) for one in played.mended.violations]
    refusals = [row for row in rows(played.mended.history) if row.answer.startswith("refused")]
    fenced = scenario.flaw.wrong is Wrong.STALE_WRITE and scenario.flaw.cure == PRODUCTION
    assert len(refusals) == played.mended.refused == fenced


def test_a_condition_that_holds_from_the_start_is_on_the_timeline_and_is_said():
    played = report(find("setnx-getset").scenarios[0])
    assert "B has a clock that is 15 s fast" in played.how
    assert "without any fault" not in played.how
    first = rows(played.broken.history)[0]
    assert (first.at, first.who, first.kind) == (0, "B", Kind.GIVEN)
    kept = rows(report(find("setnx-ttl-repair").scenarios[0]).broken.history)[0]
    assert (kept.server, kept.what) == ("redis", "keeps, from before: SETNX stock 1")


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.slug)
def test_a_lesson_has_its_text_in_both_languages(lesson):
    english, chinese = lesson.text["en"], lesson.text["zh"]
    assert re.search(r"Flaws?:\s", english.intro)
    for text in (english, chinese):
        assert list(text.flaws) == [flaw.slug for flaw in lesson.plan.flaws]
        assert all(flaw.title and flaw.change and flaw.prose for flaw in text.flaws.values())
        for line in (text.task, text.hint):
            assert line
            assert "\n" not in line
    assert re.search(r"[\u4e00-\u9fff]", chinese.intro + cure_title(lesson.scenarios[0], "zh"))
    assert ast.get_docstring(ast.parse((lesson.folder / "lock.py").read_text()))
    assert lesson.start != lesson.solution


def test_the_document_has_a_chapter_per_lesson_with_both_timelines():
    document = (ROOT / "docs" / "locks.md").read_text(encoding="utf-8")
    assert document.count(MARKER) == 1
    written = with_chapters(document)
    assert all(f"\n## {lesson.number}. {lesson.title}\n" in written for lesson in lessons())
    broken, fixed, *others = re.findall(r"```text\n(.*?)\n```", written, flags=re.DOTALL)
    assert len(others) + 2 == 2 * len(scenarios())
    assert "✗ nobody can ever enter" in broken
    assert "✗" not in fixed
    assert any("has a clock that is 15 s fast" in timeline for timeline in others)
