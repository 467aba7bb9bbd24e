"""Lesson 15: a lost answer to COMMIT makes the shop lie."""

from __future__ import annotations

from course.tests.real import schedules


def test_what_breaks_it():
    assert schedules("lost-commit") == {"lost-answer": ("before command 2 of A's run: lose reply",)}
