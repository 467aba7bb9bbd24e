"""What runs first, and on which worker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shop.tests.order import long_first


class Item:
    """As much of a test as its order needs."""

    config = SimpleNamespace(getini=lambda _: "120")

    def __init__(self, name: str, **marks: Any) -> None:
        self.name, self.path, self._marks = name, Path(name[0]), marks

    def get_closest_marker(self, name: str) -> Any:
        return SimpleNamespace(args=(self._marks[name],)) if name in self._marks else None


def ordered(items: list[Any], workers: int) -> str:
    return " ".join(item.name for item in long_first(items, workers))


SHORT: list[Any] = [Item(f"s{number}") for number in range(4)]
QUICK, SLOW = Item("a1", long=True), Item("b1", long=True, timeout=600)
SLOW_TOO = Item("b2", long=True)


def test_each_worker_begins_with_the_modules_that_may_take_longest():
    # Two slices: the slow module, and the quick one with all that fits beside it.
    assert ordered([*SHORT[:2], QUICK, SLOW, SLOW_TOO, *SHORT[2:]], 2) == "b1 b2 s0 a1 s1 s2 s3"


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 20])
def test_no_test_is_lost_or_doubled(workers):
    items = [*SHORT, QUICK, SLOW, SLOW_TOO]
    assert sorted(ordered(items, workers).split()) == sorted(item.name for item in items)


def test_without_long_tests_the_order_stays():
    assert ordered(SHORT, 3) == "s0 s1 s2 s3"
