"""The pages of the lock lab.

The simulator runs on the server, and a position is computed anew from the moves in its address: a
run takes milliseconds, needs no session or cache, and a link shows everyone the same position.  A
schedule tree computed ahead would be larger than all lessons and end where the visitor goes on.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST, require_safe

from course.exercises.catalogue import exercise
from course.exercises.cli import command
from course.exercises.run import run
from course.lessons import LESSONS, Lesson, find
from course.simulator import scenarios
from course.simulator.lesson_report import Report, report
from course.simulator.moves import Impossible, parse, write
from course.simulator.position import ROOT, position, shown_moves
from course.simulator.scenario import PRODUCTION, Scenario
from course.simulator.timeline import as_text
from course.texts import SCRIPT, TITLES

# A simulation gives the modules of the locks virtual time, so there is one at a time per process.
SIMULATOR = threading.Lock()

# A search takes a processor for seconds, and the shop needs them too.
SEARCHES = threading.BoundedSemaphore(1)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """List the lessons with their challenges."""
    with SIMULATOR:
        played = [(lesson, [report(one) for one in scenarios.of(lesson)]) for lesson in LESSONS]
    lessons = [(_title(lesson), [_challenge(one) for one in found]) for lesson, found in played]
    context = {"lessons": lessons, "script_texts": {"texts": _texts()}}
    return render(request, "course/lessons.html", context)


@require_safe
def scenario(request: HttpRequest, lesson: str, scenario: str) -> HttpResponse:
    """Show a scenario, to be played."""
    chosen = _scenario(lesson, scenario)
    everything = scenarios.scenarios()
    after = everything[(everything.index(chosen) + 1) % len(everything)]
    with SIMULATOR:
        played, (broken, mended) = report(chosen), shown_moves(chosen)
    own = exercise(chosen.lesson)
    acts = {act.value.replace(" ", "-") for act in chosen.fault_model.acts}
    script = {
        "id": f"{lesson}/{scenario}",
        "at": reverse("lock-position", args=[lesson, scenario]),
        "mine": reverse("lock-mine", args=[lesson]),
        "wrong": chosen.wrong.value if chosen.wrong else None,
        "moves": {"broken": write(broken), "mended": write(mended)},
        "acts": sorted(acts & {"fail-over", "evict", "clock-jump", "lose-message"}),
        "texts": _texts(),
        "sources": _sources(chosen),
    }
    context = {
        "played": played,
        "title": _title(chosen.lesson),
        "mended": _mended(chosen),
        "challenge": _challenge(played),
        "others": [_challenge(report(one)) for one in scenarios.of(chosen.lesson)],
        "next": _challenge(report(after)),
        "task": gettext(own.task),
        "hint": gettext(own.hint),
        "start": own.start.read_text(encoding="utf-8"),
        "command": command(chosen.lesson, "--mine my_lock.py"),
        "script": script,
    }
    return render(request, "course/lesson.html", context)


@require_safe
@cache_control(max_age=60)
def at(request: HttpRequest, lesson: str, scenario: str) -> HttpResponse:
    """Return the position after `?moves=`, of the broken lock or of `?lock=mended`."""
    chosen = _scenario(lesson, scenario)
    try:
        moves = parse(request.GET.get("moves", ""))
        with SIMULATOR:
            found = position(chosen, moves, mended=request.GET.get("lock") == "mended")
    except Impossible as problem:
        values = {"error": str(problem), "move": problem.number}
        return JsonResponse(values, status=HTTPStatus.BAD_REQUEST)
    return JsonResponse(found.as_values())


@require_POST
def mine(request: HttpRequest, lesson: str) -> HttpResponse:
    """Search the lock in `code`; for staff only, because it runs their code on this machine."""
    if not getattr(request.user, "is_staff", False):
        return JsonResponse({"error": gettext("Only staff can search a lock here.")}, status=403)
    found = exercise(_lesson(lesson))
    if not SEARCHES.acquire(blocking=False):
        busy = gettext("Another lock is being searched. Please try again in a few seconds.")
        return JsonResponse({"error": busy}, status=503, headers={"Retry-After": "10"})
    try:
        verdict = run(found, request.POST.get("code", ""), "my_lock.py")
    finally:
        SEARCHES.release()
    return JsonResponse(
        {
            "error": verdict.error,
            "wrong": verdict.wrong,
            "how": verdict.how,
            "timeline": as_text(list(verdict.rows)) if verdict.rows else "",
            "tried": verdict.tried,
        }
    )


def _texts() -> dict[str, str]:
    return {name: str(text) for name, text in SCRIPT.items()}


def _lesson(slug: str) -> Lesson:
    try:
        return find(slug)
    except KeyError:
        raise Http404 from None


def _scenario(lesson: str, slug: str) -> Scenario:
    for one in scenarios.of(_lesson(lesson)):
        if one.slug == slug:
            return one
    raise Http404


def _challenge(played: Report) -> dict[str, Any]:
    """Return what templates show of a scenario; `level` is 1 to 3, 0 if it cannot be broken."""
    scenario, schedule = played.scenario, played.schedule
    fault = any(deviation.act != "switch" for deviation in schedule)
    return {
        "id": f"{scenario.lesson.slug}/{scenario.slug}",
        "url": reverse("lock-scenario", args=[scenario.lesson.slug, scenario.slug]),
        "title": TITLES.get(scenario.title, scenario.title),
        "wrong": TITLES.get(scenario.wrong or "", scenario.wrong),
        "level": 0 if scenario.wrong is None else 1 if not schedule else 3 if fault else 2,
    }


def _title(lesson: Lesson) -> str:
    return str(TITLES.get(lesson.title, lesson.title))


def _mended(scenario: Scenario) -> str:
    if scenario.mended_by == PRODUCTION:
        return gettext("the production lock (locking/backends/redis.py)")
    lesson = find(scenario.mended_by)
    values = {"number": lesson.number, "title": _title(lesson)}
    return gettext("lesson %(number)s, %(title)s") % values


def _sources(scenario: Scenario) -> dict[str, list[str]]:
    """Return the broken and the fixed lock's files by path, for the listing beside the lanes."""
    by = scenario.mended_by
    fixed = "locking/backends/redis.py" if by == PRODUCTION else _path(find(by))
    paths = (_path(scenario.lesson), fixed)
    return {path: (ROOT / path).read_text(encoding="utf-8").splitlines() for path in paths}


def _path(lesson: Lesson) -> str:
    return f"course/lessons/{lesson.module}.py"
