"""Lesson 10 works, until its holder is paused or a server's clock jumps."""

from __future__ import annotations

from functools import partial

from course.lessons.lesson_10_redlock.lock import RedlockLock
from course.tests.real import FAST, gives_up_when_taken, one_at_a_time, schedules


def test_it_lets_one_in_at_a_time_while_nothing_goes_wrong(valkey):
    one_at_a_time(partial(RedlockLock, [valkey], "stock", wait_interval=FAST))


def test_it_gives_up_in_time_when_the_lock_is_taken(valkey):
    gives_up_when_taken(partial(RedlockLock, [valkey], "stock", wait_interval=FAST))


def test_what_breaks_it():
    assert schedules("redlock") == {
        "pause": ("before command 1 of A's work: pause 15 s",),
        "clock-jump": ("before command 1 of B's acquire: clock jump redis-3 15 s",),
    }
