"""The commands, as `manage.py` runs them; each returns its exit code."""

import sys
from functools import partial

from django.core.management import BaseCommand, CommandError, call_command

from course.management.commands import explore as explore_command
from course.management.commands import lesson as lesson_command


def _run(command: BaseCommand, *words: str) -> int:
    try:
        call_command(command, *words)
    except SystemExit as end:
        return int(end.code or 0)
    except CommandError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.returncode
    return 0


lesson = partial(_run, lesson_command.Command())
explore = partial(_run, explore_command.Command())
