"""A lesson, read from its folder: the lock, its flaws, the schedule of each, and the cure.

Its text is `README.md`, in English, then in Chinese:

    # The title

    What the lock is, and its flaw.

    ## crash: The title of the flaw whose schedule has this name

    > What the lock that fixes it does differently.

    What happens, and why.

    ## Exercise

    The task, in a line.

    ## Hint

    The hint, in a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import locking.redis_lock
from course import lessons as package
from course.plan import OWN, PRODUCTION, Flaw, Plan, production_clients
from course.simulator import production
from course.simulator.monitor import Rules
from course.simulator.redis_client import name_scripts
from course.simulator.simulation import Experiment, Setup

FOLDER = re.compile(r"lesson_(\d+)_(\w+)")
CHINESE = "<!-- 中文 -->"
"""Stands before the Chinese part of a text."""
HEADING = re.compile(r"^(#{1,2}) (?:([a-z-]+): )?(.+)$", re.MULTILINE)
CHANGE = re.compile(r"\A(?:> ?.*\n?)+")


@dataclass(frozen=True, slots=True)
class FlawText:
    """The text of one flaw; `change`: what the lock that fixes it does differently."""

    title: str
    change: str
    prose: str


@dataclass(frozen=True, slots=True)
class Text:
    """A lesson's text in one language; `flaws` by the name of their schedule."""

    title: str
    intro: str
    flaws: dict[str, FlawText]
    task: str
    hint: str


def _parse(path: Path, text: str) -> Text:
    _, *parts = HEADING.split(text)
    pieces = list(zip(parts[1::4], parts[2::4], map(str.strip, parts[3::4]), strict=True))
    if len(pieces) < 3 or any(slug for slug, *_ in (pieces[0], *pieces[-2:])):
        raise ValueError(f"{path}: not a title, flaws, an exercise and a hint")
    (_, title, intro), *flaws, (_, _, task), (_, _, hint) = pieces
    return Text(title, intro, {slug: _flaw(name, body) for slug, name, body in flaws}, task, hint)


def _flaw(title: str, body: str) -> FlawText:
    found = CHANGE.match(body)
    change = " ".join(line.lstrip("> ") for line in found[0].splitlines()) if found else ""
    return FlawText(title, change, CHANGE.sub("", body).strip())


@dataclass(frozen=True, eq=False)
class Lesson:
    """A folder of `course/lessons/`."""

    number: int
    slug: str
    folder: Path

    def module(self, name: str = "") -> ModuleType:
        """Return the module of one of its files, or of its folder."""
        return import_module(f"{package.__name__}.{self.folder.name}.{name}".rstrip("."))

    @cached_property
    def plan(self) -> Plan:
        """The clients and faults of its flaws and exercise."""
        plan: Plan = self.module().PLAN
        return plan

    def lock(self, name: str = "lock") -> type:
        """Return the lock of one of its files."""
        found = self.plan.lock_in(self.module(name))
        assert found is not None
        return found

    def setup(self, options: Mapping[str, Any], name: str = "lock") -> Setup:
        """Return what sets up a run of the lock of one of its files."""
        return partial(self.plan.clients, kind=self.lock(name), **options)

    @cached_property
    def text(self) -> dict[str, Text]:
        """Its text by language, "en" and "zh"; `ValueError` if it does not have the form."""
        path = self.folder / "README.md"
        english, _, chinese = path.read_text(encoding="utf-8").partition(CHINESE)
        return {"en": _parse(path, english), "zh": _parse(path, chinese)}

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

    def fix(self, name: str) -> tuple[Lesson, str]:
        """Return which lesson has the lock named as a cure, and in which of its files."""
        return (self, "cure") if name == OWN else (find(name), "lock")

    @property
    def solution(self) -> Path:
        """A file that solves its exercise."""
        lesson, name = self.fix(self.plan.solution)
        return lesson.folder / f"{name}.py"

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

    def text(self, language: str = "en") -> FlawText:
        """Return its text."""
        return self.lesson.text[language].flaws[self.flaw.slug]

    @property
    def cure_path(self) -> Path:
        """The file of the lock that fixes it."""
        if self.flaw.cure == PRODUCTION:
            return Path(str(locking.redis_lock.__file__))
        lesson, name = self.lesson.fix(self.flaw.cure)
        return lesson.folder / f"{name}.py"

    def experiment(self, *, fixed: bool = False) -> Experiment:
        """Return the run of the lesson's lock, which ends at its flaw, or of the fixed lock."""
        flaw = self.flaw
        return Experiment(
            self._cure_setup() if fixed else self.lesson.setup(flaw.options),
            modules(),
            Rules(
                stops_at=() if fixed or flaw.wrong is None else (flaw.wrong,),
                fair=flaw.fair,
                max_idle=flaw.max_idle,
            ),
            fenced=fixed and flaw.cure == PRODUCTION,
        )

    def _cure_setup(self) -> Setup:
        flaw = self.flaw
        options = flaw.options if flaw.cure_options is None else flaw.cure_options
        if flaw.cure == PRODUCTION:
            return partial(production_clients, **options)
        lesson, name = self.lesson.fix(flaw.cure)
        return lesson.setup(options, name)


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons, in their order; `ValueError` if two have the same number or name."""
    folders = [folder for path in package.__path__ for folder in Path(path).iterdir()]
    found = [
        Lesson(int(name[1]), name[2].replace("_", "-"), folder)
        for folder in folders
        if (name := FOLDER.fullmatch(folder.name))
    ]
    for one, other in combinations(found, 2):
        if one.number == other.number or one.slug == other.slug:
            raise ValueError(f"two lessons of one number or name: {one.folder}, {other.folder}")
    return tuple(sorted(found, key=lambda lesson: lesson.number))


@cache
def modules() -> tuple[ModuleType, ...]:
    """Return the modules of all locks, whose scripts timelines show by the names in the code."""
    locks = [
        lesson.module(name)
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
