"""A lesson, read from its folder: the lock, its flaws, the schedule of each, and the cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import locking.backends.redis
from course import lessons as package
from course.clients import Check, production_clients
from course.simulator import production
from course.simulator.history import Wrong
from course.simulator.monitor import Rules
from course.simulator.redis_client import name_scripts
from course.simulator.schedule import FaultModel
from course.simulator.simulation import Experiment, Setup
from course.text import Text, read

PRODUCTION = "redis"
"""The production lock, as the name of a cure."""

OWN = "own"
"""The lock of the lesson's `cure.py`, as the name of a cure."""

LOCK = ("acquire", "release")

FOLDER = re.compile(r"lesson_(\d+)_(\w+)")


@dataclass(frozen=True, eq=False)
class Flaw:
    """A flaw, and how to trigger it.

    `options` are those of the lesson's clients; the clients of the lock that fixes the flaw get
    `cure_options`, or the same.  `wrong` is None if nothing can go wrong.  `cure` is the name of a
    lesson, `PRODUCTION` or `OWN`.  `breaks` is the schedule that triggers the flaw, in words; empty
    if the clients need none.
    """

    slug: str
    wrong: Wrong | None
    faults: FaultModel
    cure: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cure_options: Mapping[str, Any] | None = None
    breaks: str = ""
    fair: bool = False
    max_idle: float | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What a lesson's `__init__.py` says.

    `clients` sets up a run; it takes `kind`, another lock than the lesson's, and the options of the
    flaws and checks.  `solution` is the lesson whose lock solves the exercise, or `OWN`; `cure` the
    class of `cure.py`, if a flaw names it.  `methods` are what makes a class the learner's lock;
    `quiet` the options of a run that nothing disturbs; `judge` says why such a run is not right, or
    "".
    """

    clients: Callable[..., None]
    flaws: tuple[Flaw, ...]
    checks: tuple[Check, ...]
    judge: Callable[[Any], str]
    solution: str = OWN
    cure: Callable[..., Any] | None = None
    methods: tuple[str, ...] = LOCK
    quiet: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Lesson:
    """A folder of `course/lessons/`."""

    number: int
    slug: str
    folder: Path

    @cached_property
    def plan(self) -> Plan:
        """The clients and faults of its flaws and exercise."""
        plan: Plan = import_module(f"{package.__name__}.{self.folder.name}").PLAN
        return plan

    @cached_property
    def text(self) -> dict[str, Text]:
        """Its text, by language: "en" and "zh"."""
        return read(self.folder / "README.md")

    @property
    def title(self) -> str:
        """Its title, in English."""
        return self.text["en"].title

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Its flaws; the first is the best known."""
        return tuple(Scenario(self, flaw) for flaw in self.plan.flaws)

    @property
    def start(self) -> Path:
        """The file with which its exercise begins."""
        start = self.folder / "start.py"
        return start if start.exists() else self.folder / "lock.py"

    @property
    def solution(self) -> Path:
        """A file that solves its exercise."""
        name = self.plan.solution
        return self.folder / "cure.py" if name == OWN else find(name).folder / "lock.py"

    def command(self, options: str = "") -> str:
        """Return the command line that shows it, or does what the options say."""
        return f"python3 manage.py lesson {self.slug} {options}".rstrip()


@dataclass(frozen=True, eq=False)
class Scenario:
    """A flaw of a lesson, to be played on its lock and on the one that fixes it."""

    lesson: Lesson
    flaw: Flaw

    @property
    def id(self) -> str:
        """Its name among all lessons."""
        return f"{self.lesson.slug}/{self.flaw.slug}"

    @property
    def title(self) -> str:
        """Its title, in English."""
        return self.lesson.text["en"].flaws[self.flaw.slug].title

    @property
    def cure_path(self) -> Path:
        """The file of the lock that fixes it."""
        if self.flaw.cure == PRODUCTION:
            return Path(str(locking.backends.redis.__file__))
        if self.flaw.cure == OWN:
            return self.lesson.folder / "cure.py"
        return find(self.flaw.cure).folder / "lock.py"

    def experiment(self, *, mended: bool = False) -> Experiment:
        """Return the run of the lesson's lock, which ends at its flaw, or of the fixed lock."""
        flaw = self.flaw
        own = partial(self.lesson.plan.clients, **flaw.options)
        return Experiment(
            self._cure_setup() if mended else own,
            modules(),
            Rules(
                stops_at=() if mended or flaw.wrong is None else (flaw.wrong,),
                fair=flaw.fair,
                max_idle=flaw.max_idle,
            ),
            fenced=mended and flaw.cure == PRODUCTION,
        )

    def _cure_setup(self) -> Setup:
        flaw = self.flaw
        options = dict(flaw.options if flaw.cure_options is None else flaw.cure_options)
        if flaw.cure == PRODUCTION:
            return partial(production_clients, **options)
        if flaw.cure == OWN:
            return partial(self.lesson.plan.clients, kind=self.lesson.plan.cure, **options)
        return partial(find(flaw.cure).plan.clients, **options)


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons, in their order."""
    folders = [folder for path in package.__path__ for folder in Path(path).iterdir()]
    found = [
        Lesson(int(name[1]), name[2].replace("_", "-"), folder)
        for folder in folders
        if (name := FOLDER.fullmatch(folder.name))
    ]
    return tuple(sorted(found, key=lambda lesson: lesson.number))


@cache
def modules() -> tuple[ModuleType, ...]:
    """Return the modules of all locks, whose scripts timelines show by the names in the code."""
    locks = [
        import_module(f"{package.__name__}.{lesson.folder.name}.{name}")
        for lesson in lessons()
        for name in ("lock", "cure")
        if (lesson.folder / f"{name}.py").exists()
    ]
    for module in locks:
        name_scripts(module)
    return (*locks, *production.MODULES)


def scenarios() -> tuple[Scenario, ...]:
    """Return the flaws of all lessons."""
    return tuple(one for lesson in lessons() for one in lesson.scenarios)


def find(name: str) -> Lesson:
    """Return the lesson of that name or number; `KeyError` if there is none."""
    for lesson in lessons():
        if name in (lesson.slug, str(lesson.number)):
            return lesson
    raise KeyError(f"no lesson {name!r}; there are {', '.join(one.slug for one in lessons())}")
