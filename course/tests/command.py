"""The commands, as `manage.py` runs them; each returns its exit code."""

import sys

from django.core.management import BaseCommand, CommandError, call_command

from course.management.commands import explore as explore_command
from course.management.commands import lesson as lesson_command


def _run(command: BaseCommand, words: tuple[str, ...]) -> int:
    try:
        call_command(command, *words)
    except SystemExit as end:
        return int(end.code or 0)
    except CommandError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.returncode
    return 0


def lesson(*words: str) -> int:
    return _run(lesson_command.Command(), words)


def explore(*words: str) -> int:
    return _run(explore_command.Command(), words)
