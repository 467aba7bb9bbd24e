"""Lesson 2 works for two clients; six threads break it without a fault: one repairs a live key."""

from __future__ import annotations

from functools import partial

from course.lessons.lesson_02_setnx_ttl_repair import OneName
from course.lessons.lesson_02_setnx_ttl_repair.lock import TtlRepairLock
from course.tests.real import gives_up_when_taken, schedules


def test_it_gives_up_in_time_when_the_lock_is_taken(valkey):
    gives_up_when_taken(partial(OneName, valkey, "stock", expire=10, kind=TtlRepairLock))


def test_the_client_remembers_what_it_holds(valkey):
    locks = TtlRepairLock(valkey)
    assert locks.lock("a")
    assert locks.lock("b")
    assert locks.is_locking("a")
    assert locks.expire("a", 99)
    assert 90 <= valkey.ttl("a") <= 99
    assert not locks.expire("c", 99)
    assert not locks.unlock("c")
    locks.unlock_all()
    assert not locks.is_locking("b")
    assert valkey.exists("a", "b") == 0


def test_what_breaks_it():
    assert schedules("setnx-ttl-repair") == {
        "two-repairs": ("before command 3 of A's acquire: switch B",),
        "hasty-repair": ("before command 2 of A's acquire: switch B",),
        "point-in-time": ("before command 1 of A's release: crash",),
    }
