"""The process that searches a learner's lock: reads the file from stdin, writes JSON to stdout.

`python -m course.exercises.judge LESSON FILENAME SECONDS`.  Before it runs the file, it bounds
its memory and processor time, and from then on opens nothing, so that the file can neither write
nor connect to anything.  `course.exercises.run` starts it with an empty environment.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import traceback
from contextlib import suppress
from typing import Any

from course.exercises.catalogue import SHOP, Exercise, exercise, find
from course.exercises.checks import ANYWHERE, CHECKS, QUIET, LockKind, not_working
from course.exercises.loading import MODULES as ALLOWED
from course.exercises.loading import Unusable, load
from course.lessons.lesson_08_token_lua import TokenLuaLock
from course.simulator.lesson_report import in_words
from course.simulator.scenario import MODULES
from course.simulator.search import NotFound, search
from course.simulator.simulation import Experiment, Run, run_schedule
from course.simulator.timeline import as_json, rows

MEMORY = 1 << 30


def judge(exercise: Exercise, source: str, filename: str) -> dict[str, Any]:
    """Search the lock for a failure; return the verdict as plain values."""
    try:
        kind = load(source, filename, *exercise.methods)
        return _search(exercise, kind)
    except Unusable as problem:
        return {"error": f"{filename}: {problem}"}
    except MemoryError:
        return {"error": f"{filename}: it needs more than {MEMORY >> 20} MB of memory"}
    except RecursionError:
        return {"error": f"{filename}: it calls itself without an end"}
    except Exception as problem:  # noqa: BLE001 - any error of the learner's code
        return {"error": _where(problem, filename)}


def _search(exercise: Exercise, kind: LockKind) -> dict[str, Any]:
    slug = exercise.lesson.slug
    quiet = Experiment(QUIET.get(slug, ANYWHERE)(kind), MODULES, stops_at=(), fenced=True)
    run = run_schedule(quiet)
    if exercise.lesson in SHOP:
        reason = "; ".join(f"{one.wrong}: {one.why}" for one in run.violations)
    else:
        reason = not_working(run.history, once=slug == "unique-index")
    if reason:
        return _broken(reason, "No fault, and no unusual order.", run, 1)
    tried = 1
    for check in CHECKS[slug]:
        what = Experiment(check.setup(kind), MODULES, stops_at=check.wrongs, fenced=True)
        try:
            found = search(what, check.faults, *check.wrongs, most=check.most, limit=check.limit)
        except NotFound as nothing:
            tried += nothing.tried
            continue
        why = next(one.why for one in found.run.violations if one.wrong in check.wrongs)
        wrong = next(one.wrong for one in found.run.violations if one.wrong in check.wrongs)
        return _broken(f"{wrong}: {why}", in_words(found.schedule), found.run, tried + found.tried)
    return {"passed": True, "tried": tried}


def _broken(wrong: str, how: str, run: Run, tried: int) -> dict[str, Any]:
    return {"wrong": wrong, "how": how, "tried": tried, "rows": as_json(rows(run.history))}


def _where(problem: Exception, filename: str) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    at = [frame.lineno for frame in frames if frame.filename == filename]
    place = f", line {at[-1]}" if at else ""
    text = " ".join(str(problem).split())
    return f"{filename}{place}: {type(problem).__name__}: {text}"


def bound(seconds: int) -> None:
    """Bound this process for the rest of its life."""
    for name in ALLOWED:
        importlib.import_module(name)
    run_schedule(Experiment(ANYWHERE(TokenLuaLock), MODULES))  # loads what is loaded at first use
    # A system that cannot bound the one bounds the other.
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))


def main() -> None:
    """Judge the file on stdin."""
    slug, filename, seconds = sys.argv[1:]
    source = sys.stdin.read()
    found = exercise(find(slug))
    bound(int(seconds))
    json.dump(judge(found, source, filename), sys.stdout)


if __name__ == "__main__":
    main()
