"""Lesson 18: a switch between check and take sells a mug twice; half a cure is caught too."""

from __future__ import annotations

import pytest

from course.judge import judge
from course.lesson import find
from course.tests.real import schedules


def test_what_breaks_it():
    assert schedules("oversold-cart") == {"both-check": ("before command 3 of A's run: switch B",)}


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("sorted(items)", "items", "A and B wait for each other's rows forever"),
        ("self.database.rollback()", "self.database.commit()", "the books do not balance"),
        ("self.database.commit()\n        return True", "return True", "nobody can ever enter"),
    ],
)
def test_a_cart_that_is_half_right_is_caught(right, wrong, why):
    lesson = find("oversold-cart")
    source = lesson.solution.read_text()
    assert right in source
    assert why in judge(lesson, source.replace(right, wrong), "f.py")["wrong"]
