"""Lesson 4 works for two clients; six threads break it without a fault: a GET finds no key."""

from __future__ import annotations

from functools import partial

from course.lessons.lesson_04_getset_busy_loop.lock import BusyLoopLock
from course.tests.real import gives_up_when_taken, schedules


def test_it_gives_up_in_time_when_the_lock_is_taken(valkey):
    gives_up_when_taken(partial(BusyLoopLock, valkey, "stock"))


def test_what_breaks_it():
    assert schedules("getset-busy-loop") == {
        "missing-key": ("before command 3 of A's acquire: switch B",),
        "fast-clock": (),
    }
