"""Lesson 13 cannot fail: a refund happens once, in whatever order the workers act."""

from __future__ import annotations

import pytest

from course.lesson import find
from course.lessons.lesson_13_unique_index.lock import UniqueIndexGuard
from course.simulator.history import Wrong
from course.simulator.search import NotFound, search
from course.tests.real import schedules, together


def test_a_refund_happens_once(connect):
    results: list[bool] = []

    def refund() -> None:
        results.append(UniqueIndexGuard(connect()).refund("order-7", 999))

    together(*[refund] * 8)
    assert sorted(results) == [False] * 7 + [True]


def test_no_schedule_breaks_it():
    (scenario,) = find("unique-index").scenarios
    assert schedules("unique-index") == {"double-refund": ()}
    for wrong in Wrong:
        with pytest.raises(NotFound):
            search(scenario.experiment(), scenario.flaw.faults, wrong)
