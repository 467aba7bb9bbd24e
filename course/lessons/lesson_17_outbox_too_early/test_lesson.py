"""Lesson 17: a crash between mark and mail loses the mail."""

from __future__ import annotations

from course.tests.real import schedules


def test_what_breaks_it():
    assert schedules("outbox-too-early") == {"crash": ("before command 3 of A's run: crash",)}
