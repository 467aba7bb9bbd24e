"""The options of `lesson` for exercises: `--mine`, `--hint`, `--start` and `--solution`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from course.exercises.catalogue import SHOP, Exercise, exercise
from course.exercises.run import run
from course.lessons import LESSONS, Lesson
from course.simulator.timeline import print_prose, print_timeline

PASSED, BROKEN, UNUSABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    own = parser.add_argument_group("exercise")
    own.add_argument("--start", type=Path, metavar="FILE", help="write the lock to mend to FILE")
    own.add_argument("--mine", type=Path, metavar="FILE", help="search your lock for a failure")
    own.add_argument("--hint", action="store_true", help="print the exercise's hint")
    own.add_argument("--solution", action="store_true", help="print a solution")


def wanted(options: argparse.Namespace) -> bool:
    """Return whether the options are for an exercise."""
    return bool(options.mine or options.start or options.hint or options.solution)


def run_exercise(lesson: Lesson, options: argparse.Namespace, console: Console) -> int:
    """Do what the options ask for; return the exit code."""
    found = exercise(lesson)
    if options.hint:
        print_prose(console, found.hint)
    if options.solution:
        console.out(found.solution.read_text(encoding="utf-8"), end="", highlight=False)
    if options.start is not None:
        return _start(found, options.start, console)
    return PASSED if options.mine is None else _judge(found, options.mine, console)


def _start(found: Exercise, path: Path, console: Console) -> int:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(found.start.read_text(encoding="utf-8"))
    except OSError as problem:
        return _refuse(f"{path}: {problem.strerror}")
    print_prose(console, found.task)
    console.out(f"Edit {path}, then: {command(found.lesson, f'--mine {path}')}", highlight=False)
    return PASSED


def _judge(found: Exercise, path: Path, console: Console) -> int:
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as problem:
        return _refuse(f"{path}: {problem.strerror}")
    except UnicodeDecodeError:
        return _refuse(f"{path}: not a text file")
    verdict = run(found, source, path.name)
    if verdict.error:
        return _refuse(verdict.error)
    if verdict.passed:
        console.out(praise(found.lesson, verdict.tried), highlight=False)
        return PASSED
    console.print(f"\n{verdict.wrong}\n", style="bold red", highlight=False, markup=False)
    print_prose(console, verdict.how)
    console.print()
    print_timeline(console, list(verdict.rows))
    console.print()
    print_prose(console, f"{found.task} A hint: {command(found.lesson, '--hint')}")
    return BROKEN


def praise(lesson: Lesson, tried: int) -> str:
    """Return the line for a lock that no schedule broke; it names the next lesson."""
    told = f"Well done: none of {tried} schedules breaks your lock."
    if lesson is SHOP[-1]:
        return f"{told} That was the last exercise."
    everything = (*LESSONS, *SHOP)
    after = everything[everything.index(lesson) + 1]
    name = f"lesson {after.number}, {after.title}" if after in LESSONS else after.title
    return f"{told} Next: {name} ({command(after, '--start FILE' if after in SHOP else '')})"


def command(lesson: Lesson, options: str = "") -> str:
    """Return the command line for a lesson."""
    return f"python3 manage.py lesson {lesson.slug} {options}".rstrip()


def _refuse(line: str) -> int:
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)
    return UNUSABLE
