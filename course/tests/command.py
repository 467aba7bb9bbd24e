"""The commands, as `manage.py` runs them."""

from __future__ import annotations

import argparse

from course.management.commands import explore as explore_command
from course.management.commands import lesson as lesson_command


def lesson(*words: str) -> int:
    """Run `manage.py lesson`; return its exit code."""
    parser = argparse.ArgumentParser()
    lesson_command.add_arguments(parser)
    return lesson_command.run_lesson(parser.parse_args(words))


def explore(*words: str) -> int:
    """Run `manage.py explore`; return its exit code."""
    parser = argparse.ArgumentParser()
    explore_command.add_arguments(parser)
    return explore_command.run_explore(parser.parse_args(words))
