"""Lesson 5: the work outlasts the expiry."""

from functools import partial

from course.clients import AT_ONCE, LATE_RELEASE, NOTHING, OVERTIME, each_enters, redis_clients
from course.lesson import Flaw, Plan
from course.lessons.lesson_05_lua_setnx_expire.lock import LuaSetnxExpireLock
from course.simulator.history import Wrong

PLAN = Plan(
    partial(redis_clients, kind=LuaSetnxExpireLock),
    flaws=(Flaw("overtime", Wrong.NOT_THEIRS, NOTHING, "get-compare-del", {"work": OVERTIME}),),
    checks=(LATE_RELEASE, AT_ONCE),
    judge=each_enters,
    solution="get-compare-del",
)
