"""Lesson 12 works, if its row exists and no transaction is forgotten."""

from __future__ import annotations

from course.lessons.lesson_12_row_lock import WithTimeout
from course.lessons.lesson_12_row_lock.lock import ForUpdateLock
from course.tests.real import one_at_a_time, schedules


def test_it_lets_one_in_at_a_time_if_the_row_exists(connect):
    connect().execute("INSERT INTO lock_row VALUES ('row', 0) ON CONFLICT DO NOTHING")
    one_at_a_time(lambda: WithTimeout(ForUpdateLock(connect(autocommit=False), "row")), threads=4)


def test_what_breaks_it():
    assert schedules("row-lock") == {"no-row": (), "forgotten": ()}
