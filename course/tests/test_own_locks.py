"""Own locks: what is to be fixed is broken, its solution is not, and no file does harm."""

import resource

import pytest

from course.judge import MAX_FILE, MAX_OUTPUT, PATHS, ROOT, SECONDS, judge, run
from course.lesson import find, lessons
from course.management.commands.lesson import praise
from course.tests.conftest import lesson_command as command

FIRST = find("1")


def but_long_unless(*everyday):
    """Return all lessons; the others than these are long."""
    return [
        pytest.param(lesson, marks=[] if lesson in everyday else [pytest.mark.long])
        for lesson in lessons()
    ]


@pytest.mark.parametrize("lesson", but_long_unless(FIRST, find("19")), ids=lambda one: one.slug)
def test_judge_breaks_the_start_file_but_not_the_solution(lesson):
    start = judge(lesson, lesson.start.read_text(), "start.py")
    assert start.wrong
    assert start.rows
    solution = judge(lesson, lesson.solution.read_text(), "solution.py")
    assert solution.passed, solution


LOCK = """
class Lock:
    def __init__(self, client, name): self.client, self.name = client, name
    def acquire(self, timeout=0.0): {acquire}
    def release(self): {release}
"""
SET = "return self.client.set(self.name, 1, nx=True, ex=10)"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("class Lock:\n  def acquire(self:\n", "f.py: line 2: '(' was never closed"),
        ("import subprocess", "f.py: it may not import subprocess, only "),
        ("open('x', 'w')", "f.py, line 1: NameError: name 'open' is not defined"),
        ("class Lock: pass", "f.py: no class in it has the methods acquire, release, without"),
        (
            LOCK.format(acquire=SET, release="0").replace("def a", "async def a"),
            "f.py: no class in",
        ),
        ("\0", "f.py: line 1: source code string cannot contain null bytes"),
        (
            LOCK.format(acquire="raise OSError('x y ' * 9**6)", release="0"),
            "f.py, line 4: OSError: x",
        ),
        (LOCK.format(acquire="return missing", release="pass"), "f.py, line 4: NameError: name"),
        (LOCK.format(acquire=SET, release="1 / 0"), "f.py, line 5: ZeroDivisionError: division"),
        (LOCK.format(acquire="return self.acquire()", release=""), "f.py: line "),
    ],
)
def test_judge_reports_an_unusable_file_in_one_line(source, line):
    error = judge(FIRST, source, "f.py").error
    assert error.startswith(line)
    assert "\n" not in error
    assert len(error) < 400


DELETE = "self._client.delete(self._name)"
CART = find("oversold-cart")
IN_A_CLASS = """
class Lock:
    holder = None
    def __init__(self, client, name): pass
    def acquire(self, timeout=0.0):
        if Lock.holder: return False
        Lock.holder = self
        return True
    def release(self): Lock.holder = None
"""
IN_THE_PROGRAM = """
class Once:
    done = set()
    def __init__(self, connection): pass
    def refund(self, order, amount):
        new = order not in self.done
        self.done.add(order)
        return new
"""


def shared(owner: str) -> str:
    """Return a lock in a class or a module that also speaks to the server."""
    once = f"if not hasattr({owner}, 'holder'): {owner}.holder = None\n"
    return ("" if owner == "Lock" else f"import math, time\n{once}") + (
        IN_A_CLASS.replace(": pass", ": self.client = client")
        .replace("if Lock.holder", "if self.client.ping() and Lock.holder")
        .replace("Lock.holder", f"{owner}.holder")
    )


def cart(right: str, wrong: str) -> str:
    """Return the solution of the lesson on carts with a mistake."""
    source = CART.solution.read_text()
    assert right in source
    return source.replace(right, wrong)


SILENT = "a client entered and had not sent a single command"


@pytest.mark.parametrize(
    ("lesson", "source", "why"),
    [
        ("1", LOCK.format(acquire="return False", release="pass"), "a client never got the lock"),
        ("1", FIRST.solution.read_text().replace(DELETE, "pass"), "the lock was not released"),
        *((number, IN_A_CLASS, SILENT) for number in "1378"),
        ("unique-index", IN_THE_PROGRAM, SILENT),
        *(("1", shared(owner), "two holders at once") for owner in ("Lock", "math", "time")),
        ("18", cart("sorted(items)", "items"), "A and B wait for each other's rows forever"),
        ("18", cart(".rollback()", ".commit()"), "the books do not balance"),
        ("18", cart("self.connection.commit()\n        ", ""), "nobody can ever enter"),
    ],
)
def test_judge_catches_locks_that_do_nothing_or_share_memory(lesson, source, why):
    assert why in judge(find(lesson), source, "f.py").wrong


@pytest.mark.parametrize(
    ("source", "error"),
    [
        pytest.param(
            "while True: pass",
            "it took too long; is there a loop that never ends?",
            marks=pytest.mark.long,
        ),
        ("kept = bytearray(1 << 34)", "it needs more than 1024 MB of memory"),
        ("#" * (MAX_FILE + 1), "larger than 64 KB"),
    ],
)
def test_judge_stops_a_file_that_uses_too_much_time_or_memory(source, error):
    assert run(FIRST, source, "f.py").error == f"f.py: {error}"


def test_judge_shows_the_output_and_the_line_of_the_error():
    source = LOCK.format(acquire="print('asked', self.name); return 1 / 0", release="pass")
    verdict = run(FIRST, source, "f.py")
    assert verdict.error == "f.py, line 4: ZeroDivisionError: division by zero"
    assert verdict.output == "f.py, line 4, in acquire\nasked stock\n"
    endless = LOCK.format(acquire=f"print('x' * 9999); {SET}", release="print('left')")
    assert len(run(FIRST, endless, "f.py").output) == MAX_OUTPUT


WITHOUT_ADDED_PACKAGES = """
import importlib.machinery, sys
from importlib.metadata import packages_distributions
runs, owners = set({names!r}), packages_distributions()
class Installed(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        owned_by = owners.get(name.partition(".")[0], ())
        if {{owner.lower().replace("_", "-") for owner in owned_by}} - runs:
            return None
        return super().find_spec(name, path, target)
sys.meta_path[-1:] = [Installed]
"""
"""Hides, in a process, the packages that `make demo` does not install."""


@pytest.fixture
def only_run_packages(monkeypatch, tmp_path):
    """Let judging processes see the packages of requirements.txt only."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    names = [line.partition("==")[0] for line in lines if "==" in line and line[0] != " "]
    source = WITHOUT_ADDED_PACKAGES.format(names=names)
    (tmp_path / "sitecustomize.py").write_text(source)
    monkeypatch.setattr("course.judge.PATHS", (*PATHS, str(tmp_path)))


@pytest.mark.parametrize("lesson", but_long_unless(FIRST, find("19")), ids=lambda one: one.slug)
def test_judge_needs_only_what_the_demo_installs(lesson, only_run_packages):
    verdict = run(lesson, lesson.solution.read_text(), "f.py")
    assert verdict.passed, verdict


def test_judge_names_its_own_failure(monkeypatch):
    monkeypatch.setattr("course.judge.PATHS", ("/nowhere",))
    error = run(FIRST, FIRST.solution.read_text(), "f.py").error
    assert error.startswith("the judge itself failed, and your file was not judged: ")
    assert "f.py" not in error
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert run(FIRST, "", "f.py").error.startswith("the judge itself failed")


def test_judge_names_its_own_failure_during_the_search(monkeypatch):
    def broken(*_):
        raise KeyError("process")

    monkeypatch.setattr("course.judge.rows", broken)
    error = judge(FIRST, FIRST.start.read_text(), "f.py").error
    assert error == "the judge itself failed, and your file was not judged: KeyError: 'process'"


@pytest.mark.parametrize("code", ["import redis.commands.search", "'x'.encode('latin-1')"])
def test_judge_has_loaded_what_python_loads_late(code):
    source = FIRST.solution.read_text() + f"\n{code}\n"
    assert run(FIRST, source, "f.py").passed


@pytest.mark.long
def test_judge_stops_an_endless_loop_early():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run(FIRST, LOCK.format(acquire="\n        while True: pass", release="pass"), "f.py")
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert used < SECONDS


REDIS_PYS = """
class Lock:
    def __init__(self, client, name): self.lock = client.lock(name, timeout=10)
    def acquire(self, timeout=0.0): return self.lock.acquire(blocking_timeout=timeout)
    def release(self): self.lock.release()
"""


def test_redis_pys_own_lock_waits_in_virtual_time_too():
    assert judge(FIRST, REDIS_PYS, "f.py").passed
    assert judge(find("token-lua"), REDIS_PYS, "f.py").wrong.startswith("two holders at once")


@pytest.mark.long
def test_lesson_command_starts_and_judges_an_own_file(capsys, tmp_path):
    mine = tmp_path / "my_lock.py"
    assert command("1", "--start", str(mine)) == 0
    assert command("1", "--start", str(mine)) == 2, "it must not overwrite"
    assert "--mine" in "".join(capsys.readouterr()), "what to do instead"
    assert command("1", "--mine", str(mine)) == 1
    out = capsys.readouterr().out
    assert "before command 2 of A's acquire: crash" in out
    assert "✗ nobody can ever enter" in out
    assert command("1", "--mine", str(tmp_path / "missing.py")) == 2
    assert command("1", "--hint") == 0
    assert "NX and EX" in capsys.readouterr().out
    mine.write_text(FIRST.solution.read_text())
    assert command("1", "--mine", str(mine)) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Well done: none of 22 schedules breaks your file. Next: lesson 2, ")
    assert "last lesson" in praise(lessons()[-1], 1)
