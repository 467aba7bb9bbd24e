"""A lesson's report: how its lock breaks, what fixes it, and the same schedule on the fix.

Built once, then shown as text, Mermaid or JSON, or written to the course.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from course.lessons import Lesson, find
from course.simulator import repeat_command, scenarios
from course.simulator.history import Violation
from course.simulator.scenario import PRODUCTION, Scenario
from course.simulator.schedule import Schedule, to_json
from course.simulator.search import search
from course.simulator.simulation import Run, run_schedule
from course.simulator.timeline import Row, as_json, rows


@dataclass(frozen=True, slots=True)
class Report:
    """One played scenario: `broken` by the schedule, and `mended` under the same one."""

    scenario: Scenario
    schedule: Schedule
    tried: int
    broken: Run
    mended: Run

    @property
    def went_wrong(self) -> Violation | None:
        """What broke the lesson's lock; None if nothing can."""
        wrong = self.scenario.wrong
        return next((one for one in self.broken.violations if one.wrong is wrong), None)

    @property
    def mended_well(self) -> bool:
        """Whether the same failure did not happen to the fixed lock."""
        return self.scenario.wrong is None or not self.mended.has(self.scenario.wrong)

    @property
    def mended_title(self) -> str:
        """The fixed lock, for display."""
        by = self.scenario.mended_by
        if by == PRODUCTION:
            return "the production lock (locking/backends/redis.py)"
        lesson = find(by)
        return f"lesson {lesson.number}, {lesson.title}"

    @property
    def how(self) -> str:
        """The schedule in a sentence."""
        if self.scenario.wrong is None:
            return "Nothing goes wrong, in whatever order the clients act."
        return in_words(self.schedule)

    def broken_rows(self) -> list[Row]:
        """Return the failing history."""
        return rows(self.broken.history)

    def mended_rows(self) -> list[Row]:
        """Return the history of the fixed lock."""
        return rows(self.mended.history)


def in_words(schedule: Schedule) -> str:
    """Return a failing schedule as a sentence."""
    if not schedule:
        return "It fails without any fault."
    return "The scheduler, " + ", then ".join(str(one) for one in schedule) + "."


@cache
def report(scenario: Scenario) -> Report:
    """Find the schedule that breaks the lesson, and play it on the fixed lock."""
    if scenario.wrong is None:
        return Report(
            scenario, (), 1, run_schedule(scenario.experiment), run_schedule(scenario.mended)
        )
    found = search(scenario.experiment, scenario.fault_model, scenario.wrong)
    mended = run_schedule(scenario.mended, found.schedule)
    return Report(scenario, found.schedule, found.tried, found.run, mended)


def reports(lesson: Lesson) -> list[Report]:
    """Play all scenarios of a lesson; return their reports."""
    return [report(scenario) for scenario in scenarios.of(lesson)]


def violations_json(run: Run) -> list[dict[str, Any]]:
    """Return a run's failures as plain values."""
    return [
        {"wrong": one.wrong.value, "at": one.at / 1e6, "clients": list(one.clients), "why": one.why}
        for one in run.violations
    ]


def as_values(played: Report) -> dict[str, Any]:
    """Return the report as plain values, for `--json`."""
    scenario, lesson = played.scenario, played.scenario.lesson
    return {
        "lesson": {"number": lesson.number, "slug": lesson.slug, "title": lesson.title},
        "scenario": scenario.slug,
        "title": scenario.title,
        "wrong": scenario.wrong.value if scenario.wrong else None,
        "schedule": to_json(played.schedule),
        "schedules_tried": played.tried,
        "broken": {
            "violations": violations_json(played.broken),
            "events": as_json(played.broken_rows()),
        },
        "mended": {
            "by": scenario.mended_by,
            "change": scenario.change,
            "well": played.mended_well,
            "violations": violations_json(played.mended),
            "events": as_json(played.mended_rows()),
        },
        "repeat": repeat_command.command(f"lesson {lesson.slug} --scenario {scenario.slug}"),
    }
