"""Lesson 11 works, until its holder is slow or dead."""

from __future__ import annotations

from course.lessons.lesson_11_table_row.lock import TableRowLock, clean
from course.tests.real import FAST, one_at_a_time, schedules


def test_it_lets_one_in_at_a_time_while_nothing_goes_wrong(connect):
    one_at_a_time(lambda: TableRowLock(connect(), "stock", wait_interval=FAST), threads=4)


def test_the_cleaner_deletes_what_is_old(connect):
    connection = connect()
    TableRowLock(connection, "old").acquire()
    clean(connection, limit=-1.0)
    assert TableRowLock(connection, "old").acquire()


def test_what_breaks_it():
    assert schedules("table-row") == {
        "slow-holder": (),
        "no-cleaner": ("before command 1 of A's release: crash",),
    }
