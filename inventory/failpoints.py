"""Failpoints: named lines at which fault injection can stop the process. No-ops by default.

A proof arms them to kill or pause a process at exactly that line; production never does. The idea
is FreeBSD's fail(9).
"""

from __future__ import annotations

from collections.abc import Callable

LOCKED = "locked"
BEFORE_COMMIT = "before-commit"
AFTER_COMMIT = "after-commit"
BEFORE_ANSWER = "before-answer"
FOLLOW_UP = "follow-up"

_hooks: list[Callable[[str], None]] = []


def arm(hook: Callable[[str], None]) -> None:
    """Call a function with the failpoint's name whenever this process reaches a failpoint."""
    _hooks.append(hook)


def hit(failpoint: str) -> None:
    """Report that this process has reached a failpoint."""
    for hook in _hooks:
        hook(failpoint)
