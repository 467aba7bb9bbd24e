"""`manage.py lesson [name]`: the locks that most people write first, and how each one breaks."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course.judging import run
from course.lesson import Lesson, find, lessons
from course.report import Report, as_values, cure_title, report
from course.simulator.timeline import print_prose, print_timeline, rows

RIGHT, WRONG, UNUSABLE = 0, 1, 2
"""Exit codes: as the text says, or nothing found; not so; the command cannot be carried out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("lesson", nargs="?", help="a name or a number; without it, the list")
    parser.add_argument("--scenario", help="only this one of the lesson's scenarios")
    parser.add_argument("--json", action="store_true", help="print plain values")
    own = parser.add_argument_group("exercise")
    own.add_argument("--start", type=Path, metavar="FILE", help="write the lock to fix to FILE")
    own.add_argument("--mine", type=Path, metavar="FILE", help="search your lock for a failure")
    own.add_argument("--hint", action="store_true", help="print the exercise's hint")
    own.add_argument("--solution", action="store_true", help="print a solution")


def run_lesson(options: argparse.Namespace) -> int:
    """Do what the options ask for; return the exit code."""
    console = Console()
    if options.lesson is None:
        return _list(console, as_json=options.json)
    try:
        lesson = find(options.lesson)
    except KeyError as unknown:
        return _refuse(unknown.args[0])
    if options.hint:
        print_prose(console, lesson.text["en"].hint)
    if options.solution:
        console.out(lesson.solution.read_text(encoding="utf-8"), end="", highlight=False)
    if options.start is not None:
        return _start(lesson, options.start, console)
    if options.mine is not None:
        return _judge(lesson, options.mine, console)
    return RIGHT if options.hint or options.solution else _play(lesson, options, console)


def _list(console: Console, *, as_json: bool) -> int:
    if as_json:
        return _print_json(
            [
                {
                    "number": one.number,
                    "slug": one.slug,
                    "title": one.title,
                    "scenarios": [scenario.flaw.slug for scenario in one.scenarios],
                }
                for one in lessons()
            ]
        )
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for lesson in lessons():
        table.add_row(str(lesson.number), lesson.slug, Text(lesson.title), style="bold")
        for scenario in lesson.scenarios:
            line = f"{scenario.title} → {scenario.flaw.wrong or 'cannot fail'}"
            table.add_row("", f"  {scenario.flaw.slug}", Text(line), style="dim")
    console.print(table)
    console.print("\nName a lesson or its number to see it.  With --start FILE, fix it yourself.")
    return RIGHT


def _play(lesson: Lesson, options: argparse.Namespace, console: Console) -> int:
    chosen = [one for one in lesson.scenarios if options.scenario in (None, one.flaw.slug)]
    if not chosen:
        known = ", ".join(one.flaw.slug for one in lesson.scenarios)
        return _refuse(f"no such scenario; there are {known}")
    played = [report(one) for one in chosen]
    if options.json:
        _print_json([as_values(one) for one in played])
    else:
        console.print(f"\nLesson {lesson.number}: {lesson.title}\n", style="bold", highlight=False)
        print_prose(console, lesson.text["en"].intro)
        for one in played:
            _show(console, one)
    return RIGHT if all(one.as_the_text_says for one in played) else WRONG


def _show(console: Console, played: Report) -> None:
    scenario = played.scenario
    text = scenario.lesson.text["en"].flaws[scenario.flaw.slug]
    console.print()
    console.print(Text(f"{scenario.flaw.slug}: {text.title}", style="bold underline"))
    print_prose(console, played.how)
    console.print()
    print_timeline(console, rows(played.broken.history))
    console.print()
    print_prose(console, text.prose)
    console.print()
    if scenario.flaw.wrong is None:
        print_prose(console, text.change)
        return
    print_prose(console, f"Fixed by {cure_title(scenario)}. {text.change}")
    console.print("The same schedule on that lock:\n")
    print_timeline(console, rows(played.mended.history))
    others = dict.fromkeys(str(one.wrong) for one in played.mended.violations)
    right = played.as_the_text_says
    verdict = "The failure does not occur." if right else "THE FAILURE STILL OCCURS."
    still = f" (Still: {', '.join(others)}.)" if others else ""
    console.print(f"\n{verdict}{still}\n", style="bold")


def _start(lesson: Lesson, path: Path, console: Console) -> int:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(lesson.start.read_text(encoding="utf-8"))
    except OSError as problem:
        return _refuse(f"{path}: {problem.strerror}")
    print_prose(console, lesson.text["en"].task)
    console.out(f"Edit {path}, then: {lesson.command(f'--mine {path}')}", highlight=False)
    return RIGHT


def _judge(lesson: Lesson, path: Path, console: Console) -> int:
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as problem:
        return _refuse(f"{path}: {problem.strerror}")
    except UnicodeDecodeError:
        return _refuse(f"{path}: not a text file")
    verdict = run(lesson, source, path.name)
    if verdict.error:
        return _refuse(verdict.error)
    if verdict.passed:
        console.out(praise(lesson, verdict.tried), highlight=False)
        return RIGHT
    console.print(f"\n{verdict.wrong}\n", style="bold red", highlight=False, markup=False)
    print_prose(console, verdict.how)
    console.print()
    print_timeline(console, list(verdict.rows))
    console.print()
    print_prose(console, f"{lesson.text['en'].task} A hint: {lesson.command('--hint')}")
    return WRONG


def praise(lesson: Lesson, tried: int) -> str:
    """Return the line for a lock that no schedule broke; it names the next lesson."""
    told = f"Well done: none of {tried} schedules breaks your lock."
    after = next((one for one in lessons() if one.number > lesson.number), None)
    if after is None:
        return f"{told} That was the last lesson."
    return f"{told} Next: lesson {after.number}, {after.title} ({after.command()})"


def _refuse(line: str) -> int:
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)
    return UNUSABLE


def _print_json(values: Any) -> int:
    json.dump(values, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
    return RIGHT


class Command(BaseCommand):
    """The command."""

    help = "List the lock lessons, or break one and show its fix."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Show it; exit with 1 if a lesson did not break or its fix did not hold."""
        if code := run_lesson(argparse.Namespace(**options)):
            sys.exit(code)
