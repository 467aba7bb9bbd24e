"""Lesson 7: the client compares, and a pause comes before it deletes."""

from __future__ import annotations

from functools import partial

from course.checks import AT_ONCE, LONG_PAUSE, each_enters
from course.clients import redis_clients
from course.lesson import Check, Flaw, Plan
from course.lessons.lesson_07_get_compare_del.lock import GetCompareDelLock
from course.simulator.history import Wrong

SLOW = {"timeout": 20.0, "work": {"B": 8.0}}

PLAN = Plan(
    partial(redis_clients, kind=GetCompareDelLock),
    flaws=(Flaw("between", Wrong.NOT_THEIRS, LONG_PAUSE, "token-lua", SLOW),),
    checks=(Check(SLOW, LONG_PAUSE, (Wrong.NOT_THEIRS,)), AT_ONCE),
    judge=each_enters,
    solution="token-lua",
)
