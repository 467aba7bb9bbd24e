"""Every flaw occurs in virtual time, always, and not in the fixed lock; a folder is a lesson."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from course import lesson as lesson_module
from course import lessons as package
from course.judge import judge, says
from course.lesson import CHINESE, find, lessons, scenarios
from course.plan import PRODUCTION
from course.position import ROOT
from course.report import MARKER, cure_title, report, with_chapters
from course.simulator.history import Kind, Wrong, said
from course.simulator.search import NotFound, search
from course.simulator.simulation import run_schedule
from course.simulator.timeline import as_text, rows
from course.tests.conftest import lesson_command as command

IN_CHINESE = says("zh")
BREAKABLE = [scenario for scenario in scenarios() if scenario.flaw.wrong is not None]


def test_lesson_on_idempotency_is_the_only_one_that_cannot_fail():
    assert [lesson.number for lesson in lessons()] == list(range(1, 22))
    unbreakable = [scenario.id for scenario in scenarios() if scenario.flaw.wrong is None]
    assert unbreakable == ["unique-index/double-refund"]
    (scenario,) = find("unique-index").scenarios
    with pytest.raises(NotFound):
        search(scenario.experiment(), scenario.flaw.faults, *Wrong)


@pytest.mark.parametrize("scenario", BREAKABLE, ids=lambda one: one.id)
def test_search_is_repeatable_and_its_schedule_breaks_the_lock(scenario):
    what, wrong = scenario.experiment(), scenario.flaw.wrong
    first, again = (search(what, scenario.flaw.faults, wrong) for _ in range(2))
    assert first.schedule == again.schedule
    assert first.run.history == again.run.history
    assert run_schedule(what, first.schedule).history == first.run.history
    for left_out in range(len(first.schedule)):
        shorter = first.schedule[:left_out] + first.schedule[left_out + 1 :]
        assert not run_schedule(what, shorter).has(wrong)


@pytest.mark.parametrize("scenario", BREAKABLE, ids=lambda one: one.id)
def test_fixed_lock_holds_under_the_same_schedule(scenario):
    played = report(scenario)
    assert ", then ".join(map(str, played.schedule)) == scenario.flaw.breaks
    assert played.as_the_text_says, [str(one) for one in played.fixed.violations]
    refusals = [row for row in rows(played.fixed.history) if row.answer.startswith("refused")]
    fenced = scenario.flaw.wrong is Wrong.STALE_WRITE and scenario.flaw.cure == PRODUCTION
    assert len(refusals) == played.fixed.refused == fenced


def test_timeline_and_text_name_a_condition_given_from_the_start():
    played = report(find("setnx-getset").scenarios[0])
    assert "B has a clock that is 15 s fast" in played.how
    assert "without any fault" not in played.how
    first = rows(played.broken.history)[0]
    assert (first.at, first.client, first.kind) == (0, "B", Kind.GIVEN)
    kept = rows(report(find("setnx-ttl-repair").scenarios[0]).broken.history)[0]
    assert (kept.server, kept.what) == ("redis", "keeps, from before: SETNX stock 1")


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda one: one.id)
def test_timeline_in_chinese_has_only_commands_in_english(scenario):
    played = report(scenario)
    for row in (*rows(played.broken.history, IN_CHINESE), *rows(played.fixed.history, IN_CHINESE)):
        if row.kind not in (Kind.COMMAND, Kind.LOST) and not row.what.endswith("…"):
            assert re.search(r"[\u4e00-\u9fff]", row.what)
    for one in (*played.broken.violations, *played.fixed.violations):
        assert re.search(r"[\u4e00-\u9fff]", said(one.why, IN_CHINESE))


def test_verdict_in_chinese_has_only_commands_in_english():
    mine = judge(find("setnx-getset"), find("setnx-getset").start.read_text(), "my.py", IN_CHINESE)
    assert mine.wrong == "改动了别人的锁: B 覆盖了 A 持有的锁"
    assert mine.how == "一开始就有：B 时钟快 15 秒。不需要别的故障。"
    assert " ✗ 改动了别人的锁" in as_text(list(mine.rows), IN_CHINESE)
    assert as_text(list(mine.rows), IN_CHINESE).split()[:2] == ["时间", "客户端"]


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.slug)
def test_lesson_has_its_text_in_both_languages(lesson):
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


def test_document_has_a_chapter_per_lesson_with_both_timelines():
    document = (ROOT / "docs" / "locks.md").read_text(encoding="utf-8")
    assert document.count(MARKER) == 1
    written = with_chapters(document)
    assert all(f"\n## {lesson.number}. {lesson.title}\n" in written for lesson in lessons())
    broken, fixed, *others = re.findall(r"```text\n(.*?)\n```", written, flags=re.DOTALL)
    assert len(others) + 2 == 2 * len(scenarios())
    assert "✗ nobody can ever enter" in broken
    assert "✗" not in fixed
    assert any("has a clock that is 15 s fast" in timeline for timeline in others)


PLAN = """
from course.plan import Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(Flaw("race", Wrong.TWO_HOLDERS, Faults.SWITCHES, "set-nx-ex", {"gaps": (0.0, 0.0)}),),
    checks=(Checks.AT_ONCE,),
    solution="set-nx-ex",
)
"""
LOCK = '''"""A toy."""


class ToyLock:
    def __init__(self, client, name):
        self.client, self.name = client, name

    def acquire(self, timeout=0.0):
        if self.client.get(self.name):
            return False
        return self.client.set(self.name, 1)

    def release(self):
        self.client.delete(self.name)
'''
TEXT = """# A toy lock

It looks, and then it takes. Flaw: two steps.

## race: Two look before one takes

> One step.

Both see a free lock.

## Exercise

Fix the toy.

## Hint

NX.
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "lesson_99_toy_lock"
    folder.mkdir()
    (folder / "__init__.py").write_text(PLAN)
    (folder / "lock.py").write_text(LOCK)
    (folder / "README.md").write_text(f"{TEXT}\n{CHINESE}\n\n{TEXT}")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    for cached in (lesson_module.lessons, lesson_module.modules):
        cached.cache_clear()
    yield
    for cached in (lesson_module.lessons, lesson_module.modules):
        cached.cache_clear()
    for name in [one for one in sys.modules if "lesson_99_toy_lock" in one]:
        del sys.modules[name]


@pytest.mark.usefixtures("toy")
@pytest.mark.long
def test_lesson_folder_appears_in_list_command_and_documents(capsys):
    assert command() == 0
    assert "99  toy-lock" in capsys.readouterr().out
    assert command("toy-lock") == 0
    out = capsys.readouterr().out
    assert "✗ two holders at once" in out
    assert "The failure does not occur." in out
    written = with_chapters(f"# Course\n\n{MARKER}\n")
    assert "## 99. A toy lock" in written
    assert "### Two look before one takes\n\n```text\n" in written
    mine = judge(find("99"), LOCK, "my_lock.py")
    assert mine.wrong.startswith("a client never got the lock")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("name", ["lesson_99_copy", "lesson_100_toy_lock"])
def test_lessons_with_the_same_number_or_name_are_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"of one number or name: .*{name}"):
        lessons()
