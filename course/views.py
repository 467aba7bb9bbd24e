"""The pages of the lock lab.

The simulator runs on the server, and a position is computed anew from the moves in its address: a
run takes milliseconds, needs no session or cache, and a link shows everyone the same position.  A
schedule tree computed ahead would be larger than all lessons and end where the visitor goes on.
"""

import re
import threading
from dataclasses import asdict
from html import escape
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_cookie

from course.judge import run
from course.lesson import Lesson, Scenario, find, lessons, scenarios
from course.position import Impossible, parse, position, short_path, write
from course.report import Report, cure_title, report
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
    context = {"lessons": listed, "script_texts": {"texts": SCRIPT}}
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
        "wrong": chosen.flaw.wrong.value if chosen.flaw.wrong else None,
        "moves": {"broken": write(played.broken.moves), "mended": write(played.mended.moves)},
        "acts": sorted(acts & SCRIPT.keys()),
        "texts": SCRIPT,
        "wrongs": {one: gettext(one) for one in Wrong},
        "sources": {
            short_path(path): path.read_text(encoding="utf-8").splitlines()
            for path in (chosen.lesson.folder / "lock.py", chosen.cure_path)
        },
    }
    text = chosen.lesson.text[_language()]
    context = {
        "lesson": chosen.lesson,
        "text": text,
        "flaw": text.flaws[scenario],
        "intro": _as_html(text.intro),
        "prose": _as_html(text.flaws[scenario].prose),
        "mended": cure_title(chosen, _language()),
        "challenge": _challenge(played),
        "others": others,
        "next": following,
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
            mended = request.GET.get("lock") == "mended"
            found = position(chosen, moves, mended=mended, say=gettext)
    except Impossible as problem:
        values = {"error": str(problem), "move": problem.number}
        return JsonResponse(values, status=HTTPStatus.BAD_REQUEST)
    return JsonResponse(asdict(found))


@require_POST
def mine(request: HttpRequest, lesson: str) -> HttpResponse:
    """Search the lock in `code`; for staff only, because it runs their code on this machine."""
    if not getattr(request.user, "is_staff", False):
        return JsonResponse({"error": gettext("Only staff can search a lock here.")}, status=403)
    found = _lesson(lesson)
    if not SEARCHES.acquire(blocking=False):
        busy = gettext("Another lock is being searched. Please try again in a few seconds.")
        return JsonResponse({"error": busy}, status=503, headers={"Retry-After": "10"})
    try:
        verdict = run(found, request.POST.get("code", ""), "my_lock.py", _language())
    finally:
        SEARCHES.release()
    return JsonResponse(
        {
            "error": verdict.error,
            "wrong": verdict.wrong,
            "how": verdict.how,
            "timeline": as_text(list(verdict.rows), gettext) if verdict.rows else "",
            "tried": verdict.tried,
        }
    )


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
    return mark_safe("".join(f"<p>{paragraph}</p>" for paragraph in text.split("\n\n")))


# -- texts

SCRIPT: dict[str, Promise] = {
    "ready": _("about to run"),
    "waiting": _("waits until %(until)s s"),
    "asleep": _("waits to be woken"),
    "works": _("holds the lock and works until %(until)s s"),
    "holds": _("holds the lock"),
    "paused": _("paused until %(until)s s"),
    "new": _("comes at %(until)s s"),
    "dead": _("process killed"),
    "done": _("finished"),
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
    "passed": _("Well done: none of %(tried)s schedules breaks your lock."),
    "frame": _("Move %(at)s of %(count)s: %(move)s"),
    "play": _("Play"),
    "stop": _("Stop"),
    "progress": _("%(done)s of %(total)s broken"),
    "fail-over": _("Fail the server over"),
    "evict": _("Evict the key"),
    "clock-jump": _("Set a server's clock ahead"),
}
"""By name; the placeholders are filled in by the script."""
