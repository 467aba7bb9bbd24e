"""Lesson 5 works, until the work outlasts the expiry."""

from __future__ import annotations

from functools import partial

from course.lessons.lesson_05_lua_setnx_expire.lock import LuaSetnxExpireLock
from course.tests.real import FAST, gives_up_when_taken, one_at_a_time, schedules


def test_it_lets_one_in_at_a_time_while_nothing_goes_wrong(valkey):
    one_at_a_time(partial(LuaSetnxExpireLock, valkey, "stock", wait_interval=FAST))
    assert valkey.get("stock") is None or valkey.ttl("stock") != -1


def test_it_gives_up_in_time_when_the_lock_is_taken(valkey):
    gives_up_when_taken(partial(LuaSetnxExpireLock, valkey, "stock", wait_interval=FAST))


def test_what_breaks_it():
    assert schedules("lua-setnx-expire") == {
        "overtime": (),
    }
