"""The order of the tests, so that all processes of a run end at about the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest


def is_long(item: pytest.Item) -> bool:
    """Whether a test has the mark `long` or `nightly`."""
    return any(item.get_closest_marker(mark) for mark in ("long", "nightly"))


def long_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order tests for pytest-xdist's `worksteal`, so that a run does not end with a long one.

    It gives each worker one slice of the tests, and an idle worker the end of another one's. So
    each slice begins with long tests. The modules of these stay together, since their tests share
    what they start; those with the longest time-outs come first.
    """
    modules: dict[Path, list[pytest.Item]] = {}
    short = []
    for item in items:
        if is_long(item):
            modules.setdefault(item.path, []).append(item)
        else:
            short.append(item)
    slices: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for module in sorted(modules.values(), key=_time_limit, reverse=True):
        min(slices, key=_time_limit).extend(module)
    ordered: list[pytest.Item] = []
    for number, long in enumerate(slices):
        size = (len(items) - len(ordered)) // (workers - number)
        count = max(0, size - len(long))
        ordered += [*long, *short[:count]]
        del short[:count]
    return ordered + short


def _time_limit(items: Iterable[pytest.Item]) -> float:
    """Return the sum of the tests' time-outs: the best guess at what they will take."""
    total = 0.0
    for item in items:
        mark = item.get_closest_marker("timeout")
        total += float(mark.args[0] if mark else item.config.getini("timeout"))
    return total
