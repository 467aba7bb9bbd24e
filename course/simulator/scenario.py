"""The parts of a lesson's scenario, and the faults that the scheduler may inject."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from course.lessons import LESSONS, Lesson, find
from course.simulator import production
from course.simulator.history import Wrong
from course.simulator.redis_client import SCRIPT_NAMES
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import Experiment, Setup

MODULES = (
    *(import_module(f"course.lessons.{lesson.module}") for lesson in LESSONS),
    *production.MODULES,
)

# Timelines show a script by the name of its constant in the lesson.
SCRIPT_NAMES.update(
    {
        value: f"script {name}"
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, str) and "redis.call" in value
    }
)

PRODUCTION = "redis"
"""The production lock, as a value of `mended_by`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A flaw of a lesson, and how to trigger it.

    `wrong` is None if nothing can go wrong.  `mended_by` is the slug of a lesson or `PRODUCTION`;
    `mended` uses that lock, and `change` says what it does differently.
    """

    lesson: Lesson
    slug: str
    title: str
    experiment: Experiment
    fault_model: FaultModel
    wrong: Wrong | None
    mended_by: str
    change: str
    mended: Experiment


def scenario(
    lesson: str,
    slug: str,
    title: str,
    setup: Setup,
    wrong: Wrong | None,
    fault_model: FaultModel,
    mended_by: str,
    change: str,
    mended: Setup,
    *,
    fair: bool = False,
    max_idle: float | None = None,
) -> Scenario:
    """Return a scenario whose run ends at its flaw; see `Scenario` and `Experiment`."""
    stops_at = () if wrong is None else (wrong,)
    fenced = mended_by == PRODUCTION
    return Scenario(
        find(lesson),
        slug,
        title,
        Experiment(setup, MODULES, stops_at=stops_at, fair=fair, max_idle=max_idle),
        fault_model,
        wrong,
        mended_by,
        " ".join(change.split()),
        Experiment(mended, MODULES, stops_at=(), fair=fair, max_idle=max_idle, fenced=fenced),
    )


NOTHING = FaultModel(frozenset())
SWITCHES = FaultModel(frozenset({Act.SWITCH}))
CRASH = FaultModel(frozenset({Act.CRASH}), victims=("A",), most_faults=1)
LONG_PAUSE = FaultModel(frozenset({Act.PAUSE}), seconds=(15.0,), victims=("A",), most_faults=1)
FAIL_OVER = FaultModel(frozenset({Act.FAIL_OVER}), targets=("redis",), most_faults=1)
CLOCK_JUMP = FaultModel(
    frozenset({Act.CLOCK_JUMP}),
    targets=("redis-3",),
    seconds=(15.0,),
    victims=("B",),  # so that it happens when B comes, long after A got the lock
    most_faults=1,
)
LOST_MESSAGE = FaultModel(frozenset({Act.LOSE_MESSAGE}), victims=("A",), most_faults=1)
EVICTION = FaultModel(frozenset({Act.EVICT}), targets=("memcached",), most_faults=1)

# Work that outlasts the lease of 10 s, and a write that comes after the next holder's.
OVERTIME = {"A": 12.0, "B": 4.0}
LATE_WRITER = {"A": 6.0, "B": 1.0}
