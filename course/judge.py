"""A learner's lock, judged in a process of its own: confined, bounded and stopped in time.

`run` starts `python -m course.judge LESSON FILENAME LANGUAGE` with an empty environment and hands
it the file. That process loads everything that is needed, writes `READY`, and lets a child of its
own, in the sandbox, run the file and search for a failure (`course/sandbox.py`). The child's
standard output is closed: its verdict comes through a pipe, after the file has ended.

What the file may name is checked before it runs (`course/allowed.py`), so that it reaches neither
the search nor its verdict. What it prints is shown to the learner.

A process that ends before it is ready has failed by itself, because nothing of the file has run
yet. So has a search that ends with an error which no line of the file has a part in. Both are
reported as failures of the judge, never as faults of the file.
"""

from __future__ import annotations

import ast
import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from gettext import translation
from pathlib import Path
from types import ModuleType
from typing import Any

import redis.lock

from course.allowed import (
    MODULES,
    Unusable,
    builtins_with,
    changed,
    fingerprint,
    is_allowed,
    refuse,
)
from course.lesson import Lesson, find, modules
from course.plan import TTL, Plan, lease_argument
from course.report import in_words
from course.sandbox import Outcome, confine
from course.simulator.history import Kind, Say, Wrong, _, said
from course.simulator.monitor import Rules
from course.simulator.redis_client import name_scripts
from course.simulator.search import NotFound, search
from course.simulator.simulation import Experiment, run_schedule
from course.simulator.timeline import Row, rows

ROOT = Path(__file__).resolve().parents[1]

PATHS = (str(ROOT),)
"""Where the process finds its modules, next to those of its Python."""

SECONDS = 10
"""Of CPU time, which does not depend on how busy the machine is, for the whole search."""

SECONDS_PER_CLIENT = 3
"""Of CPU time between the starts of two clients: even one that asks the server all the time takes
a third of that."""

PATIENCE = 6 * SECONDS
"""Seconds by the clock that the process may take."""

READY = "ready"
"""The first line of the process: everything is loaded, and the file's turn comes."""

OWN_FAILURE = _("the judge itself failed, and your file was not judged: %s")

MAX_FILE = 64 * 1024

MAX_OUTPUT = 2_000
"""Characters of what a file prints: the search calls the lock thousands of times."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the search found.

    `error`: why the file could not be judged, in one line: a fault of the file if the line begins
    with its name, else a failure of the judge.  `wrong`: what failed, `how`: by which schedule,
    `rows`: the history.  All are empty if no schedule of `tried` broke the lock.  `output`: what
    the file printed at first, and where its error came from.  `isolated`: whether the file ran in
    namespaces of its own; without them its bounds are weaker.
    """

    error: str = ""
    wrong: str = ""
    how: str = ""
    rows: tuple[Row, ...] = ()
    tried: int = 0
    output: str = ""
    isolated: bool = True

    @property
    def passed(self) -> bool:
        """Whether the lock was searched and not broken."""
        return not self.error and not self.wrong


def says(language: str) -> Say:
    """Return what translates into "en" or "zh", without Django."""
    chosen = {"zh": ["zh_Hans"]}.get(language, [])
    return translation("django", ROOT / "course" / "locale", chosen, fallback=True).gettext


def run(lesson: Lesson, source: str, filename: str, language: str = "en") -> Verdict:
    """Judge a file in a process of its own; the verdict is in a language of the lessons' texts."""
    say = says(language)
    if len(source.encode()) > MAX_FILE:
        return Verdict(error=f"{filename}: " + say(_("larger than %s KB")) % (MAX_FILE >> 10))
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-B", "-m", "course.judge", lesson.slug, filename, language],
                input=source,
                capture_output=True,
                cwd=folder,
                env={"PYTHONPATH": os.pathsep.join(PATHS), "PYTHONUTF8": "1"},
                encoding="utf-8",
                timeout=PATIENCE,
                check=False,
                start_new_session=True,
            )
            out, error, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired as problem:
            out, error, code = (problem.stdout or b"").decode(), "", -signal.SIGKILL
        except OSError as problem:
            return Verdict(error=say(OWN_FAILURE) % problem)
    ready, _separator, line = out.partition("\n")
    if ready != READY:
        last = error.strip().splitlines()[-1:] or [f"exit code {code}"]
        return Verdict(error=say(OWN_FAILURE) % last[0])
    with suppress(ValueError):
        values = json.loads(line)
        return Verdict(**values | {"rows": tuple(Row(**row) for row in values["rows"])})
    return _ended(Outcome(b"", code, isolated=True), filename, say)


def _ended(outcome: Outcome, filename: str, say: Say) -> Verdict:
    """Return the verdict of a search that ended without one."""
    why = say(_("it ended its process (exit code %s), or wrote to its output")) % outcome.code
    if -outcome.code in (signal.SIGKILL, signal.SIGXCPU, signal.SIGPROF):
        why = say(_("it took too long; is there a loop that never ends?"))
    return Verdict(error=f"{filename}: {why}", isolated=outcome.isolated)


# -- in the process

MEMORY = 1 << 30


def judge(lesson: Lesson, source: str, filename: str, say: Say = str) -> Verdict:
    """Search the lock for a failure."""
    printed = Printed()
    found = _judge(lesson, source, filename, say, printed)
    return replace(found, output=found.output + printed.text)


def _judge(lesson: Lesson, source: str, filename: str, say: Say, printed: Printed) -> Verdict:
    before = fingerprint()
    try:
        found = _search(lesson, OwnLock(source, filename, lesson.plan, printed), say)
        if patched := changed(before):
            raise Unusable(_("it changes %s, which all clients would have in common"), patched)
        return found
    except Unusable as problem:
        text, *values = problem.args
        return Verdict(error=f"{filename}: {say(text) % tuple(values)}")
    except MemoryError:
        why = say(_("it needs more than %s MB of memory")) % (MEMORY >> 20)
        return Verdict(error=f"{filename}: {why}")
    except OSError as problem:
        if problem.errno != errno.EMFILE:
            return failed(problem, filename, say)
        why = say(_("it opens a file or a connection; it may use only what it is given"))
        return Verdict(error=f"{filename}: {why}")
    except RecursionError:
        why = say(_("it calls itself without an end"))
        return Verdict(error=f"{filename}: {why}")
    except Exception as problem:  # noqa: BLE001 - any error of the learner's code
        return failed(problem, filename, say)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Printed:
    """Keeps the beginning of what a file prints."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, *values: object, sep: str = " ", end: str = "\n", **_more: object) -> None:
        """Stand in for `print`."""
        if len(self.text) < MAX_OUTPUT:
            printed = (sep or " ").join(map(str, values)) + end
            self.text = (self.text + printed)[:MAX_OUTPUT]


def failed(problem: Exception, filename: str, say: Say) -> Verdict:
    """Return the verdict for a file that raises, with the way through its lines."""
    error = _where(problem, filename, say)
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if frame.filename == filename]
    trace = "".join(f"{filename}, line {frame.lineno}, in {frame.name}\n" for frame in own)
    return Verdict(error=error, output=trace)


def _search(lesson: Lesson, kind: OwnLock, say: Say) -> Verdict:
    plan = lesson.plan

    def experiment(options: Mapping[str, Any], *stops_at: Wrong) -> Experiment:
        setup = partial(plan.clients, kind=kind, **options)
        # Also redis-py's own lock, with which a learner may compare.
        return Experiment(setup, (*modules(), redis.lock), Rules(stops_at), fenced=True)

    tried = 0
    for options in plan.quiet:
        run = run_schedule(experiment(options))
        tried += 1
        wrong, why = plan.judge(run)
        if wrong:
            violation = f"{say(wrong)}: {said(why, say)}"
            how = say(_("No fault, and no unusual order."))
            if any(event.kind is Kind.GIVEN for event in run.history):
                how = in_words((), run, say)
            return Verdict("", violation, how, tuple(rows(run.history, say)), tried)
    for check in plan.checks:
        ttl = check.options.get("ttl", TTL)
        if ttl != TTL and not lease_argument(kind, ttl):
            continue
        what = experiment(check.options, *check.wrongs)
        try:
            found = search(what, check.faults, *check.wrongs, most=check.most, limit=check.limit)
        except NotFound as nothing:
            tried += nothing.tried
            continue
        failure = next(one for one in found.run.violations if one.wrong in check.wrongs)
        return Verdict(
            wrong=f"{say(failure.wrong)}: {said(failure.why, say)}",
            how=in_words(found.schedule, found.run, say),
            rows=tuple(rows(found.run.history, say)),
            tried=tried + found.tried,
        )
    return Verdict(tried=tried)


CALLS = (TypeError, AttributeError)
"""Errors at a call of the lock, or at the use of what it returns, that no line of the file has a
part in although the file causes them: a method takes other arguments, or returns another type."""


def _where(problem: Exception, filename: str, say: Say) -> str:
    """Return an error in one line, with the file's line or as a failure of the judge."""
    frames = traceback.extract_tb(problem.__traceback__)
    at = [frame.lineno for frame in frames if frame.filename == filename]
    text = textwrap.shorten(str(problem), 300, placeholder=" …")
    error = f"{type(problem).__name__}: {text}"
    if not at and not isinstance(problem, CALLS):
        return say(OWN_FAILURE) % error
    place = f", line {at[-1]}" if at else ""
    return f"{filename}{place}: {error}"


def load(source: str) -> None:
    """Load what the file may use: from now on nothing can be opened.

    Python loads the modules in `LOADED_LATE` only when a function of theirs is called.
    """
    for name in (*MODULES, *LOADED_LATE):
        importlib.import_module(name)
    with suppress(SyntaxError, ValueError):  # which `OwnLock` tells the learner
        for node in ast.walk(ast.parse(source)):
            for name in _imported(node):
                if is_allowed(name):
                    with suppress(ImportError):  # which the import itself tells the learner
                        importlib.import_module(name)


def _imported(node: ast.AST) -> list[str]:
    """Return the modules that a statement may import."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return []


def main() -> None:
    """Judge the file on stdin."""
    slug, filename, language = sys.argv[1:]
    source = sys.stdin.read()
    lesson, say = find(slug), says(language)
    lesson.plan  # noqa: B018 - loads it, while files can be opened
    load(source)
    run_schedule(Experiment(find("token-lua").setup({}), modules()))  # loads what is used first
    print(READY, flush=True)

    def work(pipe: int) -> None:
        verdict = judge(lesson, source, filename, say)
        for part in _parts(json.dumps(asdict(verdict)).encode()):
            os.write(pipe, part)

    outcome = confine(work, memory=MEMORY, seconds=SECONDS)
    verdict = _ended(outcome, filename, say)
    if not outcome.code:
        with suppress(ValueError):
            values = json.loads(outcome.written) | {"isolated": outcome.isolated}
            sys.stdout.write(json.dumps(values))
            return
    sys.stdout.write(json.dumps(asdict(verdict)))


def _parts(text: bytes, size: int = 1 << 16) -> Iterator[bytes]:
    """Yield a text in parts that a pipe takes whole."""
    for at in range(0, len(text), size):
        yield text[at : at + size]


LOADED_LATE = ("encodings.ascii", "encodings.latin_1", "encodings.idna")
"""Modules that Python loads when a function of theirs is called."""

NAME = "my_lock"


class OwnLock:
    """A learner's lock: the last class of the file that has the methods.

    Each call runs the whole file anew and makes a lock of what it defines, because clients are
    processes of their own: what the file keeps in its globals and classes, only one client has.
    """

    def __init__(self, source: str, filename: str, plan: Plan, printed: Printed) -> None:
        try:
            tree = ast.parse(source, filename)
            refuse(tree)
            self._code = compile(tree, filename, "exec", dont_inherit=True)
        except SyntaxError as problem:
            raise Unusable("line %s: %s", problem.lineno or 1, problem.msg) from None
        except ValueError as problem:  # a null byte, before Python 3.11.4
            raise Unusable("line 1: %s", problem) from None
        self._plan = plan
        self._builtins = builtins_with(printed)
        self._kind = self._load()

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Make a lock for one client."""
        return self._load()(*args, **options)

    @property
    def lock(self) -> type:
        """The class that the file defines."""
        return self._kind

    def _load(self) -> type:
        signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CLIENT)  # then SIGPROF ends the process
        module = ModuleType(NAME)
        sys.modules[NAME] = module  # dataclasses look there
        module.__dict__["__builtins__"] = dict(self._builtins)
        exec(self._code, module.__dict__)
        name_scripts(module)
        found = self._plan.lock_in(module)
        if found is None:
            wanted = ", ".join(self._plan.methods)
            raise Unusable(_("no class in it has the methods %s, without async"), wanted)
        return found


if __name__ == "__main__":
    main()
