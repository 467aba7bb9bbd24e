"""Adding a lesson is adding a folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from course import lesson, lessons, report
from course.judge import judge
from course.tests.conftest import lesson_command as command

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
    (folder / "README.md").write_text(f"{TEXT}\n{lesson.CHINESE}\n\n{TEXT}")
    monkeypatch.setattr(lessons, "__path__", [*lessons.__path__, str(tmp_path)])
    for cached in (lesson.lessons, lesson.modules):
        cached.cache_clear()
    yield
    for cached in (lesson.lessons, lesson.modules):
        cached.cache_clear()
    for name in [one for one in sys.modules if "lesson_99_toy_lock" in one]:
        del sys.modules[name]


@pytest.mark.usefixtures("toy")
def test_a_folder_is_a_lesson_in_the_list_the_command_and_the_documents(capsys):
    assert command() == 0
    assert "99  toy-lock" in capsys.readouterr().out
    assert command("toy-lock") == 0
    out = capsys.readouterr().out
    assert "✗ two holders at once" in out
    assert "The failure does not occur." in out
    written = report.with_chapters(f"# Course\n\n{report.MARKER}\n")
    assert "## 99. A toy lock" in written
    assert "### Two look before one takes\n\n```text\n" in written
    mine = judge(lesson.find("99"), LOCK, "my_lock.py")
    assert mine.wrong.startswith("B never got the lock")
