"""A scenario played: how the lesson's lock breaks, and its schedule on the lock that fixes it."""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from course.lesson import Lesson, Scenario, find, lessons
from course.plan import OWN, PRODUCTION
from course.simulator.history import Event, Kind, Say, _
from course.simulator.schedule import Act, Schedule
from course.simulator.search import Found, search
from course.simulator.simulation import Run, run_schedule
from course.simulator.timeline import as_text, readable, rows, values_of


@dataclass(frozen=True, slots=True)
class Report:
    """One played scenario: the lesson's lock (`broken`) and the one that fixes it (`fixed`), both
    run under the same schedule."""

    scenario: Scenario
    schedule: Schedule
    tried: int
    broken: Run
    fixed: Run

    @property
    def as_the_text_says(self) -> bool:
        """Whether the lock failed, unless it cannot, and the fixed one did not fail so."""
        wrong = self.scenario.flaw.wrong
        return wrong is None or (self.broken.has(wrong) and not self.fixed.has(wrong))

    @property
    def level(self) -> int:
        """How it breaks: 1 by itself, 2 in another order, 3 by a fault; 0: it does not."""
        if self.scenario.flaw.wrong is None:
            return 0
        acts = {deviation.act for deviation in self.schedule}
        return 3 if acts - {Act.SWITCH} else 2 if acts else 1

    @property
    def how(self) -> str:
        """The conditions and the schedule, in sentences."""
        if self.scenario.flaw.wrong is None:
            return "Nothing goes wrong, in whatever order the clients act."
        return in_words(self.schedule, self.broken)


def in_words(schedule: Schedule, run: Run, say: Say = str) -> str:
    """Return a failing schedule in sentences."""
    given = [
        f"{one.who or one.server} {readable(one.what, say)}"
        for one in run.history
        if one.kind is Kind.GIVEN
    ]
    start = say(_("From the start, %(given)s. ")) % {"given": "; ".join(given)} if given else ""
    if not schedule:
        alone = _("It needs no further fault.") if given else _("It fails without any fault.")
        return start + say(alone)
    acts = "; ".join(one.said(say) for one in schedule)
    return start + say(_("The scheduler, %(acts)s.")) % {"acts": acts}


@cache
def report(scenario: Scenario) -> Report:
    """Find the schedule that breaks the lesson, and play it on the fixed lock."""
    what, flaw = scenario.experiment(), scenario.flaw
    if flaw.wrong is None:
        found = Found((), run_schedule(what), 1)
    else:
        found = search(what, flaw.faults, flaw.wrong)
    fixed = run_schedule(scenario.experiment(fixed=True), found.schedule)
    return Report(scenario, found.schedule, found.tried, found.run, fixed)


def cure_title(scenario: Scenario, language: str = "en") -> str:
    """Return the name of the lock that fixes the flaw."""
    cure, chinese = scenario.flaw.cure, language == "zh"
    if cure == PRODUCTION:
        return "生产环境的锁" if chinese else "the production lock"
    if cure == OWN:
        return "练习的解答" if chinese else "the exercise's solution"
    lesson = find(cure)
    name = f"第 {lesson.number} 课" if chinese else f"lesson {lesson.number}"
    return f"{name}{'：' if chinese else ', '}{lesson.text[language].title}"


def as_values(played: Report) -> dict[str, Any]:
    """Return the report as plain values, for `--json`."""
    scenario, lesson = played.scenario, played.scenario.lesson
    return {
        "lesson": {"number": lesson.number, "slug": lesson.slug, "title": lesson.title},
        "scenario": scenario.flaw.slug,
        "title": scenario.text().title,
        "wrong": scenario.flaw.wrong.value if scenario.flaw.wrong else None,
        "schedule": [asdict(deviation) for deviation in played.schedule],
        "schedules_tried": played.tried,
        "broken": _run_values(played.broken),
        "mended": {
            "by": scenario.flaw.cure,
            "change": scenario.text().change,
            "well": played.as_the_text_says,
            **_run_values(played.fixed),
        },
        "repeat": f"python3 manage.py lesson {lesson.slug} --scenario {scenario.flaw.slug}",
    }


def _run_values(run: Run) -> dict[str, Any]:
    return {
        "violations": [values_of(one) for one in run.violations],
        "events": [values_of(line) for line in rows(run.history)],
    }


# -- the chapters of the documentation

MARKER = "<!-- lessons -->"
"""In the document, where the chapters go."""


def with_chapters(document: str) -> str:
    """Return the document with a chapter per lesson."""
    if MARKER not in document:
        return document
    return document.replace(MARKER, "\n\n".join(map(_chapter, lessons())))


def _chapter(lesson: Lesson) -> str:
    text = lesson.text["en"]
    code = (lesson.folder / "lock.py").read_text(encoding="utf-8").strip()
    return "\n\n".join(
        [
            f"## {lesson.number}. {text.title}",
            text.intro,
            f"```python\n{code}\n```",
            *map(_flaw, lesson.scenarios),
            f"**Exercise.** {text.task}",
        ]
    )


def _flaw(scenario: Scenario) -> str:
    text, played = scenario.text(), report(scenario)
    return (
        f"### {text.title}\n\n{_timeline(played.broken.history)}\n\n{text.prose}\n\n"
        f"<details markdown><summary>The same schedule on {cure_title(scenario)}</summary>\n\n"
        f"{text.change}\n\n{_timeline(played.fixed.history)}\n\n</details>"
    )


def _timeline(history: list[Event]) -> str:
    return f"```text\n{as_text(rows(history))}\n```"
