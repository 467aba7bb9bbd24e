"""`manage.py lesson [name]`: the locks that most people write first, and how each one breaks."""

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course.judge import run
from course.lesson import Lesson, find, lessons
from course.report import Report, as_values, cure_title, report
from course.rush import database, hold, summary
from course.simulator.timeline import print_prose, print_timeline, rows


class Command(BaseCommand):
    """The command; it exits with 1 if a lesson, or the learner's lock, is not as it should be."""

    help = "List the lock lessons, or break one and show its fix."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        parser.add_argument("lesson", nargs="?", help="a name or a number; without it, the list")
        parser.add_argument("--scenario", help="only this one of the lesson's scenarios")
        parser.add_argument("--json", action="store_true", help="print plain values")
        own = parser.add_argument_group("exercise")
        own.add_argument("--start", type=Path, metavar="FILE", help="write the lock to fix to FILE")
        own.add_argument("--mine", type=Path, metavar="FILE", help="search your lock for a failure")
        own.add_argument(
            "--rush", action="store_true", help="with --mine: let buyers rush it on PostgreSQL, too"
        )
        own.add_argument("--hint", action="store_true", help="print the exercise's hint")
        own.add_argument("--solution", action="store_true", help="print a solution")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the options ask for."""
        console = Console(highlight=False)
        if options["lesson"] is None:
            for name in ("scenario", "start", "mine", "rush", "hint", "solution"):
                if options[name]:
                    raise _refusal(f"name the lesson that --{name} is about")
            _list(console, as_json=options["json"])
            return
        try:
            lesson = find(options["lesson"])
        except KeyError as unknown:
            raise _refusal(unknown.args[0]) from None
        if options["hint"]:
            print_prose(console, lesson.text["en"].hint)
        if options["solution"]:
            console.out(lesson.solution.read_text(encoding="utf-8"), end="")
        if options["rush"] and (lesson.plan.rush is None or not options["mine"]):
            raise _refusal("--rush goes with --mine, in a lesson about a stock: 19, 20 or 21")
        right = True
        if options["start"]:
            _start(lesson, options["start"], console)
        elif options["mine"]:
            right = _judge(lesson, options["mine"], console, rushed=options["rush"])
        elif not options["hint"] and not options["solution"]:
            right = _play(lesson, options, console)
        if not right:
            sys.exit(1)


def _refusal(line: str) -> CommandError:
    return CommandError(line, returncode=2)


def _list(console: Console, *, as_json: bool) -> None:
    if as_json:
        _print_json(
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
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for lesson in lessons():
        table.add_row(str(lesson.number), lesson.slug, Text(lesson.title), style="bold")
        for scenario in lesson.scenarios:
            line = f"{scenario.text().title} → {scenario.flaw.wrong or 'cannot fail'}"
            table.add_row("", f"  {scenario.flaw.slug}", Text(line), style="dim")
    console.print(table)
    console.print("\nName a lesson or its number to see it.  With --start FILE, fix it yourself.")


def _play(lesson: Lesson, options: dict[str, Any], console: Console) -> bool:
    """Show the lesson; return whether its locks fail and hold as its text says."""
    wanted = options["scenario"]
    chosen = [one for one in lesson.scenarios if wanted in (None, one.flaw.slug)]
    if not chosen:
        known = ", ".join(one.flaw.slug for one in lesson.scenarios)
        raise _refusal(f"no such scenario; there are {known}")
    played = [report(one) for one in chosen]
    if options["json"]:
        _print_json([as_values(one) for one in played])
    else:
        console.print(f"\nLesson {lesson.number}: {lesson.title}\n", style="bold")
        print_prose(console, lesson.text["en"].intro)
        for one in played:
            _show(console, one)
    return all(one.as_the_text_says for one in played)


def _show(console: Console, played: Report) -> None:
    scenario = played.scenario
    text = scenario.text()
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
    print_timeline(console, rows(played.fixed.history))
    others = dict.fromkeys(str(one.wrong) for one in played.fixed.violations)
    right = played.as_the_text_says
    verdict = "The failure does not occur." if right else "THE FAILURE STILL OCCURS."
    still = f" (Still: {', '.join(others)}.)" if others else ""
    console.print(f"\n{verdict}{still}\n", style="bold")


def _start(lesson: Lesson, path: Path, console: Console) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(lesson.start.read_text(encoding="utf-8"))
    except FileExistsError:
        raise _refusal(
            f"{path} is there already, and is left as it is. To have it searched: "
            f"{lesson.command(f'--mine {path}')}\nTo begin anew, name another file, or delete it."
        ) from None
    except OSError as problem:
        raise _refusal(f"{path}: {problem.strerror}") from None
    print_prose(console, lesson.text["en"].task)
    console.out(f"Edit {path}, then: {lesson.command(f'--mine {path}')}")


def _judge(lesson: Lesson, path: Path, console: Console, *, rushed: bool) -> bool:
    """Judge the learner's lock; return whether no schedule and no rush broke it."""
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        start = lesson.command(f"--start {path}")
        raise _refusal(f"{path}: there is no such file. To write the one to fix: {start}") from None
    except OSError as problem:
        raise _refusal(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise _refusal(f"{path}: not a text file") from None
    verdict = run(lesson, source, path.name)
    if verdict.output:
        console.out(f"What your file printed, and where it failed:\n{verdict.output}")
    if not verdict.isolated:
        console.out("This system has no namespaces for it: your file ran within weaker bounds.")
    if verdict.error:
        raise _refusal(verdict.error)
    if verdict.passed:
        if rushed and not _rush(lesson, source, path.name, console):
            return False
        console.out(praise(lesson, verdict.tried))
        if lesson.plan.rush is not None and not rushed:
            console.out(f"On a real database: {lesson.command(f'--mine {path} --rush')}")
        return True
    console.print(f"\n{verdict.wrong}\n", style="bold red", markup=False)
    print_prose(console, verdict.how)
    console.print()
    print_timeline(console, list(verdict.rows))
    console.print()
    print_prose(console, f"{lesson.text['en'].task} A hint: {lesson.command('--hint')}")
    return False


def _rush(lesson: Lesson, source: str, filename: str, console: Console) -> bool:
    """Let buyers rush the learner's file; return whether all was right in the end."""
    result = hold(lesson, source, filename, database())
    if result.unheld:
        raise _refusal(result.unheld)
    if result.output:
        console.out(f"What your file printed, and where it failed:\n{result.output}")
    if result.error:
        raise _refusal(result.error)
    for problem in result.problems:
        console.print(f"\n{problem}\n", style="bold red", markup=False)
    print_prose(console, summary(result, str))
    return result.passed


def praise(lesson: Lesson, tried: int) -> str:
    """Return the line for a lock that no schedule broke; it names the next lesson."""
    result = f"Well done: none of {tried} schedules breaks your file."
    after = next((one for one in lessons() if one.number > lesson.number), None)
    if after is None:
        return f"{result} That was the last lesson."
    return f"{result} Next: lesson {after.number}, {after.title} ({after.command()})"


def _print_json(values: Any) -> None:
    json.dump(values, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
