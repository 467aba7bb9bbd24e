"""A learner's lock, judged in a process of its own that is bounded and stopped in time.

`run` starts that process, `python -m course.judge LESSON FILENAME LANGUAGE`, with an empty
environment.  It reads a secret and the file from stdin.  It loads everything that it needs, bounds
its memory and processor time, and from then on opens nothing, so that the file can neither write
nor connect to anything.  Then it writes `READY`, runs the file, and writes the secret and its
verdict, as JSON, to stdout: what the file writes there is no verdict.

A process that ends before it is ready has failed by itself, because nothing of the file has run
yet.  So has a search that ends with an error which no line of the file has a part in.  Both are
reported as failures of the judge, never as faults of the file.
"""

from __future__ import annotations

import ast
import builtins
import errno
import importlib
import importlib.util
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from gettext import translation
from pathlib import Path
from types import ModuleType
from typing import Any

import redis.lock

from course.lesson import Lesson, find, modules
from course.plan import TTL, Plan, lease_argument
from course.report import in_words
from course.simulator.history import Kind, Say, Wrong, _, said
from course.simulator.monitor import Rules
from course.simulator.redis_client import name_scripts
from course.simulator.search import NotFound, search
from course.simulator.simulation import Experiment, run_schedule
from course.simulator.timeline import Row, rows
from course.simulator.virtual import VIRTUAL

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the search found.

    `error`: why the file could not be judged, in one line: a fault of the file if the line begins
    with its name, else a failure of the judge.  `wrong`: what failed, `how`: by which schedule,
    `rows`: the history.  All are empty if no schedule of `tried` broke the lock.
    """

    error: str = ""
    wrong: str = ""
    how: str = ""
    rows: tuple[Row, ...] = ()
    tried: int = 0

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
    say, secret = says(language), secrets.token_hex()
    if len(source.encode()) > MAX_FILE:
        return Verdict(error=f"{filename}: " + say(_("larger than %s KB")) % (MAX_FILE >> 10))
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-B", "-m", "course.judge", lesson.slug, filename, language],
                input=f"{secret}\n{source}",
                capture_output=True,
                cwd=folder,
                env={"PYTHONPATH": os.pathsep.join(PATHS), "PYTHONUTF8": "1"},
                encoding="utf-8",
                timeout=PATIENCE,
                check=False,
            )
            out, error, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired as problem:
            out, error, code = (problem.stdout or b"").decode(), "", -signal.SIGKILL
        except OSError as problem:
            return Verdict(error=say(OWN_FAILURE) % problem)
    ready, _separator, told = out.partition("\n")
    if ready != READY:
        last = error.strip().splitlines()[-1:] or [f"exit code {code}"]
        return Verdict(error=say(OWN_FAILURE) % last[0])
    if -code in (signal.SIGKILL, signal.SIGXCPU, signal.SIGPROF):
        why = say(_("it took too long; is there a loop that never ends?"))
        return Verdict(error=f"{filename}: {why}")
    key, _separator, answer = told.partition("\n")
    if key == secret and not code:
        with suppress(ValueError):
            values = json.loads(answer)
            return Verdict(**values | {"rows": tuple(Row(**line) for line in values["rows"])})
    why = say(_("it ended its process (exit code %s), or wrote to its output")) % code
    return Verdict(error=f"{filename}: {why}")


# -- in the process

MEMORY = 1 << 30


def judge(lesson: Lesson, source: str, filename: str, say: Say = str) -> Verdict:
    """Search the lock for a failure."""
    try:
        return _search(lesson, OwnLock(source, filename, lesson.plan), say)
    except Unusable as problem:
        text, *values = problem.args
        return Verdict(error=f"{filename}: {say(text) % tuple(values)}")
    except MemoryError:
        why = say(_("it needs more than %s MB of memory")) % (MEMORY >> 20)
        return Verdict(error=f"{filename}: {why}")
    except OSError as problem:
        if problem.errno != errno.EMFILE:
            return Verdict(error=_where(problem, filename, say))
        why = say(_("it opens a file or a connection; it may use only what it is given"))
        return Verdict(error=f"{filename}: {why}")
    except RecursionError:
        why = say(_("it calls itself without an end"))
        return Verdict(error=f"{filename}: {why}")
    except Exception as problem:  # noqa: BLE001 - any error of the learner's code
        return Verdict(error=_where(problem, filename, say))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


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
            told = f"{say(wrong)}: {said(why, say)}"
            how = say(_("No fault, and no unusual order."))
            if any(event.kind is Kind.GIVEN for event in run.history):
                how = in_words((), run, say)
            return Verdict("", told, how, tuple(rows(run.history, say)), tried)
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
    told = f"{type(problem).__name__}: {text}"
    if not at and not isinstance(problem, CALLS):
        return say(OWN_FAILURE) % told
    place = f", line {at[-1]}" if at else ""
    return f"{filename}{place}: {told}"


def load(source: str) -> None:
    """Load what the file may use: from now on nothing can be opened.

    Python loads the modules in `LOADED_LATE` only when a function of theirs is called.
    """
    for name in (*MODULES, *LOADED_LATE):
        importlib.import_module(name)
    with suppress(SyntaxError, ValueError):  # which `OwnLock` tells the learner
        for node in ast.walk(ast.parse(source)):
            for name in _imported(node):
                if _is_allowed(name):
                    with suppress(ImportError):  # which the import itself tells the learner
                        importlib.import_module(name)


def _imported(node: ast.AST) -> list[str]:
    """Return the modules that a statement may import."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return []


def bound() -> None:
    """Bound this process for the rest of its life."""
    first = find("token-lua").setup({})  # loads what is loaded at first use
    run_schedule(Experiment(first, modules()))
    # A system that cannot bound the one bounds the other.
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))


def main() -> None:
    """Judge the file on stdin."""
    slug, filename, language = sys.argv[1:]
    secret, source = sys.stdin.read().split("\n", 1)
    lesson, say = find(slug), says(language)
    lesson.plan  # noqa: B018 - loads it, while files can be opened
    load(source)
    bound()
    print(READY, flush=True)
    verdict = judge(lesson, source, filename, say)
    sys.stdout.write(f"{secret}\n{json.dumps(asdict(verdict))}")


REQUIRED = (
    "__future__", "collections", "contextlib", "course", "dataclasses", "enum", "functools",
    "hashlib", "itertools", "math", "psycopg", "random", "redis", "string", "threading", "time",
    "typing", "uuid",
)  # fmt: skip

OPTIONAL = ("pymemcache",)
"""For the names of its classes only: `make demo` does not install it, and no lock needs it, because
a lock is given its client."""

MODULES = (*REQUIRED, *(name for name in OPTIONAL if importlib.util.find_spec(name)))
"""What a lock may import, with the modules inside of them."""

LOADED_LATE = ("encodings.ascii", "encodings.latin_1", "encodings.idna")

FORBIDDEN = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")

NAME = "my_lock"


class Unusable(Exception):
    """The file cannot be judged; a text says why, in one line, with the values that follow it."""


class OwnLock:
    """A learner's lock: the last class of the file that has the methods.

    Each call runs the whole file anew and makes a lock of what it defines, because clients are
    processes of their own: what the file keeps in its globals and classes, only one client has.
    """

    def __init__(self, source: str, filename: str, plan: Plan) -> None:
        try:
            self._code = compile(source, filename, "exec", dont_inherit=True)
        except SyntaxError as problem:
            raise Unusable("line %s: %s", problem.lineno or 1, problem.msg) from None
        except ValueError as problem:  # a null byte, before Python 3.11.4
            raise Unusable("line 1: %s", problem) from None
        self._plan = plan
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
        module.__dict__["__builtins__"] = dict(BUILTINS)
        exec(self._code, module.__dict__)
        name_scripts(module)
        found = self._plan.lock_in(module)
        if found is None:
            wanted = ", ".join(self._plan.methods)
            raise Unusable(_("no class in it has the methods %s, without async"), wanted)
        return found


def _is_allowed(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in MODULES)


def _import(
    name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
) -> Any:
    if level or not _is_allowed(name):
        raise Unusable(_("it may not import %s, only %s"), name or "relatively", ", ".join(MODULES))
    found = importlib.import_module(name)
    if not names:
        found = sys.modules[name.partition(".")[0]]
    if found in VIRTUAL:
        return VIRTUAL[found].copy()
    copy = ModuleType(found.__name__)  # what one client sets in a module, no other sees
    copy.__dict__.update(vars(found))
    return copy


def _print(*_: object, **__: object) -> None:
    """Print nothing: the search calls the lock thousands of times."""


BUILTINS = {name: value for name, value in vars(builtins).items() if name not in FORBIDDEN} | {
    "__import__": _import,
    "print": _print,
}


if __name__ == "__main__":
    main()
