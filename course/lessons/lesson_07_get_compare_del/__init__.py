"""Lesson 7: the client compares, and a pause comes before it deletes."""

from functools import partial

from course.clients import AT_ONCE, LONG_PAUSE, Check, each_enters, redis_clients
from course.lesson import Flaw, Plan
from course.lessons.lesson_07_get_compare_del.lock import GetCompareDelLock
from course.simulator.history import Wrong

SLOW = {"timeout": 20.0, "work": {"B": 8.0}}

PLAN = Plan(
    partial(redis_clients, kind=GetCompareDelLock),
    flaws=(
        Flaw(
            "between",
            Wrong.NOT_THEIRS,
            LONG_PAUSE,
            "token-lua",
            SLOW,
            breaks="before command 2 of A's release: pause 15 s",
        ),
    ),
    checks=(Check(SLOW, LONG_PAUSE, (Wrong.NOT_THEIRS,)), AT_ONCE),
    judge=each_enters,
    solution="token-lua",
)
