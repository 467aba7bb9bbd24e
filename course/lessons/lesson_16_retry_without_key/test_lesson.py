"""Lesson 16: a lost answer makes a second order."""

from __future__ import annotations

from course.tests.real import schedules


def test_what_breaks_it():
    assert schedules("retry-without-key") == {
        "lost-answer": ("before command 1 of A's run: lose reply",)
    }
