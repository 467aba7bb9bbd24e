"""Lesson 9 works, until its holder is paused, its server replaced or its message lost."""

from __future__ import annotations

from functools import partial

from course.lessons.lesson_09_watchdog.lock import WatchdogLock
from course.tests.real import gives_up_when_taken, one_at_a_time, schedules


def test_it_lets_one_in_at_a_time_while_nothing_goes_wrong(valkey):
    one_at_a_time(partial(WatchdogLock, valkey, "stock"))


def test_it_gives_up_in_time_when_the_lock_is_taken(valkey):
    gives_up_when_taken(partial(WatchdogLock, valkey, "stock"))


def test_it_keeps_the_lock_of_a_living_holder_and_can_be_entered_twice(valkey):
    lock, other = WatchdogLock(valkey, "stock", lease=0.3), WatchdogLock(valkey, "stock")
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    assert not other.acquire(0.7), "longer than two leases"
    lock.release()
    assert other.acquire(1.0)
    other.release()


def test_what_breaks_it():
    assert schedules("watchdog") == {
        "pause": ("before command 1 of A's work: pause 15 s",),
        "fail-over": ("before command 1 of B's acquire: fail over redis",),
        "lost-message": ("before command 1 of A's release: lose message",),
    }
