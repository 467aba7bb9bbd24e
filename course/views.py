"""The pages of the lock lab.

The simulator runs on the server, and a position is computed anew from the moves in its address: a
run takes milliseconds, needs no session or cache, and a link shows everyone the same position.  A
schedule tree computed ahead would be larger than all lessons and end where the visitor goes on.
"""

import re
import threading
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_cookie

from course.judge import run, says
from course.lesson import Lesson, Scenario, find, lessons, scenarios
from course.models import OWN_LOCK, Progress
from course.position import Impossible, parse, position, short_path, write
from course.report import Report, cure_title, in_words, report
from course.rush import RushResult, database, hold, summary
from course.simulator.history import Wrong
from course.simulator.timeline import as_text

# A simulation gives the modules of the locks virtual time, so there is one at a time per process.
SIMULATOR = threading.Lock()

# A search takes a processor for seconds, and the shop needs them too.
SEARCHES = threading.BoundedSemaphore(1)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """List the lessons with their challenges."""
    with SIMULATOR:
        listed = [
            (lesson.text[_language()].title, [_challenge(report(one)) for one in lesson.scenarios])
            for lesson in lessons()
        ]
    script = {"texts": SCRIPT, "done": Progress.of(request.user)}
    context = {"lessons": listed, "script_texts": script}
    return render(request, "course/lessons.html", context)


@require_safe
def scenario(request: HttpRequest, lesson: str, scenario: str) -> HttpResponse:
    """Show a scenario, to be played."""
    chosen = _scenario(lesson, scenario)
    everything = scenarios()
    after = everything[(everything.index(chosen) + 1) % len(everything)]
    with SIMULATOR:
        played = report(chosen)
        others = [_challenge(report(one)) for one in chosen.lesson.scenarios]
        following = _challenge(report(after))
    acts = {act.value.replace(" ", "-") for act in chosen.flaw.faults.acts}
    script = {
        "id": chosen.id,
        "at": reverse("lock-position", args=[lesson, scenario]),
        "broken": reverse("lock-broken", args=[lesson, scenario]),
        "done": Progress.of(request.user),
        "wrong": chosen.flaw.wrong.value if chosen.flaw.wrong else None,
        "moves": {"broken": write(played.broken.moves), "mended": write(played.fixed.moves)},
        "acts": sorted(acts & SCRIPT.keys()),
        "lock": chosen.lesson.plan.has_lock,
        "next": _lesson_after(chosen.lesson),
        "texts": SCRIPT,
        "wrongs": {one: gettext(one) for one in Wrong},
        "sources": {
            short_path(path): path.read_text(encoding="utf-8").splitlines()
            for path in (chosen.lesson.folder / "lock.py", chosen.cure_path)
        },
    }
    text = chosen.lesson.text[_language()]
    changes = dict.fromkeys(text.flaws[one.flaw.slug].change for one in chosen.lesson.scenarios)
    context = {
        "lesson": chosen.lesson,
        "text": text,
        "flaw": text.flaws[scenario],
        "intro": _as_html(text.intro),
        "prose": _as_html(text.flaws[scenario].prose),
        "fixed_by": cure_title(chosen, _language()),
        "challenge": _challenge(played),
        "others": others,
        "next": following,
        "hints": _hints(chosen, played),
        "changes": list(changes),
        "solution": chosen.lesson.solution.read_text(encoding="utf-8"),
        "may_search": may_search(request),
        "start": chosen.lesson.start.read_text(encoding="utf-8"),
        "command": chosen.lesson.command("--mine my_lock.py"),
        "script": script,
    }
    return render(request, "course/lesson.html", context)


@require_safe
@cache_control(max_age=60)
@vary_on_cookie
def at(request: HttpRequest, lesson: str, scenario: str) -> HttpResponse:
    """Return the position after `?moves=`, of the broken lock or of `?lock=mended`."""
    chosen = _scenario(lesson, scenario)
    try:
        moves = parse(request.GET.get("moves", ""))
        with SIMULATOR:
            fixed = request.GET.get("lock") == "mended"
            found = position(chosen, moves, fixed=fixed, say=gettext)
    except Impossible as problem:
        values = {"error": str(problem), "move": problem.number}
        return JsonResponse(values, status=HTTPStatus.BAD_REQUEST)
    return JsonResponse(asdict(found))


OWN_FILE = "my_lock.py"
"""The name of a learner's file in what is said about it."""

LOCAL = ("127.0.0.1", "::1", "localhost")


def may_search(request: HttpRequest) -> bool:
    """Whether this visitor may have a lock of their own searched: it runs code on this machine.

    Where `COURSE_OPEN` is set, as in the demo, everybody who is signed in on this machine may, and
    nobody from elsewhere: the passwords of the demo's staff are known. Elsewhere staff may.
    """
    if not getattr(settings, "COURSE_OPEN", False):
        return bool(getattr(request.user, "is_staff", False))
    host = request.get_host().rpartition(":")[0].strip("[]") or request.get_host()
    local = host in LOCAL and request.META.get("REMOTE_ADDR") in LOCAL
    return local and request.user.is_authenticated


@require_POST
def mine(request: HttpRequest, lesson: str) -> HttpResponse:
    """Search the lock in `code`, for those who may; note it if nothing breaks it."""
    if not may_search(request):
        refused = gettext("Sign in on the machine of the demo to have a file searched.")
        return JsonResponse({"error": refused}, status=403)
    found = _lesson(lesson)
    if not SEARCHES.acquire(blocking=False):
        busy = gettext("Another file is being searched. Please try again in a few seconds.")
        return JsonResponse({"error": busy}, status=503, headers={"Retry-After": "10"})
    try:
        code = request.POST.get("code", "")
        verdict = run(found, code, OWN_FILE, _language())
        rushed = None
        if verdict.passed and found.plan.rush is not None:
            rushed = hold(found, code, OWN_FILE, database(), _language())
    finally:
        SEARCHES.release()
    if verdict.passed and (rushed is None or rushed.passed or rushed.unheld):
        Progress.note(request.user, f"{found.slug}/{OWN_LOCK}")
    weaker = gettext("This system has no namespaces for it: your file ran within weaker bounds.")
    return JsonResponse(
        {
            "error": verdict.error,
            "wrong": verdict.wrong,
            "how": verdict.how,
            "timeline": as_text(list(verdict.rows), gettext) if verdict.rows else "",
            "tried": verdict.tried,
            "output": verdict.output,
            "weaker": "" if verdict.isolated else weaker,
            "rush": _rush_values(rushed) if rushed else None,
        }
    )


def _rush_values(rushed: RushResult) -> dict[str, Any]:
    """Return what the page shows of a rush."""
    return {
        "unheld": rushed.unheld,
        "wrong": rushed.error or "; ".join(rushed.problems),
        "output": rushed.output,
        "text": summary(rushed, gettext) if rushed.counts else "",
    }


@require_POST
def broken(request: HttpRequest, lesson: str, scenario: str) -> HttpResponse:
    """Note in the progress of the signed-in visitor that these moves break the lock, if they do."""
    chosen = _scenario(lesson, scenario)
    try:
        moves = parse(request.POST.get("moves", ""))
        with SIMULATOR:
            found = position(chosen, moves)
    except Impossible as problem:
        return JsonResponse({"error": str(problem)}, status=HTTPStatus.BAD_REQUEST)
    if chosen.flaw.wrong not in {one["wrong"] for one in found.violations}:
        unbroken = gettext("These moves do not break the lock.")
        return JsonResponse({"error": unbroken}, status=HTTPStatus.BAD_REQUEST)
    Progress.note(request.user, chosen.id, moves=len(moves))
    return JsonResponse({})


@require_safe
@never_cache
def classroom(request: HttpRequest) -> HttpResponse:
    """Show the teacher who has broken what, and whose own locks hold."""
    if not getattr(request.user, "has_perm", lambda _: False)("course.view_progress"):
        raise Http404
    columns = [(one, one.text[_language()].title) for one in lessons()]
    learners = [
        {
            "name": name,
            "broken": len([what for what in done if not what.endswith(f"/{OWN_LOCK}")]),
            "cells": [_cell(one, done) for one, _title in columns],
        }
        for name, done in Progress.by_learner().items()
    ]
    context = {"columns": columns, "learners": learners, "total": len(breakable())}
    return render(request, "course/classroom.html", context)


def _cell(lesson: Lesson, done: Mapping[str, int]) -> dict[str, Any]:
    flaws = [one.id for one in lesson.scenarios if one.flaw.wrong]
    return {
        "broken": len([one for one in flaws if one in done]),
        "flaws": len(flaws),
        "own": f"{lesson.slug}/{OWN_LOCK}" in done,
    }


def breakable() -> list[Scenario]:
    """Return the scenarios that can be broken."""
    return [one for one in scenarios() if one.flaw.wrong]


def _lesson(slug: str) -> Lesson:
    try:
        return find(slug)
    except KeyError:
        raise Http404 from None


def _scenario(lesson: str, slug: str) -> Scenario:
    for one in _lesson(lesson).scenarios:
        if one.flaw.slug == slug:
            return one
    raise Http404


def _lesson_after(lesson: Lesson) -> dict[str, str] | None:
    """Return the address and the title of the next lesson; None after the last."""
    after = next((one for one in lessons() if one.number > lesson.number), None)
    if after is None:
        return None
    first = after.scenarios[0].flaw.slug
    return {
        "url": reverse("lock-scenario", args=[after.slug, first]),
        "title": f"{after.number}. {after.text[_language()].title}",
    }


HINTS = {
    1: _("Just let the clients run: it breaks by itself."),
    2: _("No fault is needed: choose who runs next, at the right moment."),
    3: _("It needs a fault: look at what you can do to a client besides stepping it."),
}
"""By level: what kind of schedule breaks the lock."""


def _hints(chosen: Scenario, played: Report) -> list[str]:
    """Return two hints for breaking a lock; the third is to be shown it."""
    if chosen.flaw.wrong is None:
        return []
    language = _language()
    in_order = in_words(played.schedule, played.broken, says(language))
    return [str(HINTS[played.level]), in_order]


def _challenge(played: Report) -> dict[str, Any]:
    """Return what templates show of a scenario."""
    scenario = played.scenario
    wrong = scenario.flaw.wrong
    return {
        "id": scenario.id,
        "url": reverse("lock-scenario", args=[scenario.lesson.slug, scenario.flaw.slug]),
        "title": scenario.text(_language()).title,
        "wrong": gettext(wrong) if wrong else None,
        "level": played.level,
        "lesson": scenario.lesson.text[_language()].title,
        "number": scenario.lesson.number,
    }


def _language() -> str:
    """Return the language of the lessons' texts that is the visitor's."""
    return "zh" if (get_language() or "").startswith("zh") else "en"


def _as_html(prose: str) -> SafeString:
    """Return prose as HTML: paragraphs, code, emphasis and links."""
    text = escape(prose, quote=False)
    for pattern, replacement in (
        (r"`([^`]+)`", r"<code>\1</code>"),
        (r"\*\*(.+?)\*\*", r"<strong>\1</strong>"),
        (r"\*(.+?)\*", r"<em>\1</em>"),
        (r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>'),
    ):
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    text = _explained(text)
    return mark_safe("".join(f"<p>{paragraph}</p>" for paragraph in text.split("\n\n")))


# -- texts

WORDS: tuple[tuple[str, Promise], ...] = (
    (r"leases?|租约", _("a lock with an end: it is free again when its time is over")),
    (r"fencing tokens?|栅栏令牌", _("a number that grows with every grant; old ones are refused")),
    (r"SETNX", _("Redis: set the key if it does not exist")),
    (r"EXPIRE", _("Redis: delete the key after so many seconds")),
    (r"GETSET", _("Redis: set the key and return its old value")),
    (r"Lua", _("a script that Redis runs as one command")),
    (r"watchdog|看门狗", _("a thread that renews the lease while its holder works")),
    (r"quorum|majority|多数派?", _("more than half of the servers")),
    (r"outbox|发件箱", _("a table of messages, written in the same transaction as what they tell")),
    (
        r"idempotency keys?|幂等键",
        _("an id of the request: sent again with it, it is not done twice"),
    ),
    (r"unique index|唯一索引", _("the database refuses a second row with the same value")),
)
"""Words of the lessons as patterns, with what each means; explained at their first use."""


def _explained(html: str) -> str:
    """Explain the words of the lessons where they stand first, outside of tags."""
    for pattern, meaning in WORDS:
        parts = re.split(r"(<[^>]+>)", html)
        for at, part in enumerate(parts):
            found = None if part.startswith("<") else re.search(rf"\b(?:{pattern})\b", part)
            if found:
                word = f'<abbr tabindex="0" title="{escape(str(meaning))}">{found[0]}</abbr>'
                parts[at] = part[: found.start()] + word + part[found.end() :]
                break
        html = "".join(parts)
    return html


SCRIPT: dict[str, Promise] = {
    "ready": _("about to run"),
    "waiting": _("waits until %(until)s s"),
    "asleep": _("waits to be woken"),
    "works": _("holds the lock and works until %(until)s s"),
    "holds": _("holds the lock"),
    "paused": _("paused until %(until)s s"),
    "new": _("comes at %(until)s s"),
    "dead": _("process killed"),
    "done": _("has finished"),
    "step": _("Step %(client)s"),
    "lose-message": _("Step %(client)s, lose the message"),
    "lose-request": _("Step %(client)s, lose the request"),
    "lose-reply": _("Step %(client)s, lose the answer"),
    "pause": _("Pause %(client)s for 15 s"),
    "kill": _("Kill %(client)s"),
    "until": _("Let time pass, to %(until)s s"),
    "no_event": _("Let time pass"),
    "expires": _("expires in %(left)s s"),
    "forever": _("never expires"),
    "empty": _("no keys"),
    "more": _("%(count)s more like these, until %(at)s s"),
    "broken": _("Broken: %(why)s"),
    "solved": _("You broke it. Moves: %(count)s."),
    "shown": _("This is the counterexample that the simulator found."),
    "also": _("Also: %(why)s"),
    "held": _("The run is over, and the failure did not occur."),
    "unbroken": _("The run is over and nothing went wrong. Take steps back, or start again."),
    "now": _("Time: %(now)s s. Moves: %(count)s."),
    "impossible": _("This move is not possible here: %(why)s"),
    "offline": _("The server did not answer. Please try again."),
    "searching": _("Searching…"),
    "passed": _("Well done: none of %(tried)s schedules breaks your file."),
    "next": _("Next: %(title)s"),
    "unheld": _("There was no rush on a real database: %(why)s"),
    "frame": _("Move %(at)s of %(count)s: %(move)s"),
    "play": _("Play"),
    "stop": _("Stop"),
    "progress": _("%(done)s of %(total)s broken"),
    "output": _("What your file printed, and where it failed:"),
    "fail-over": _("Fail the server over"),
    "evict": _("Evict the key"),
    "clock-jump": _("Set a server's clock ahead"),
}
"""By name; the placeholders are filled in by the script."""
