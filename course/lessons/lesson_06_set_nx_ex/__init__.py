"""Lesson 6: the flaw of lesson 5, in one command."""

from functools import partial

from course.clients import AT_ONCE, LATE_RELEASE, NOTHING, OVERTIME, each_enters, redis_clients
from course.lesson import Flaw, Plan
from course.lessons.lesson_06_set_nx_ex.lock import SetNxExLock
from course.simulator.history import Wrong

PLAN = Plan(
    partial(redis_clients, kind=SetNxExLock),
    flaws=(Flaw("overtime", Wrong.NOT_THEIRS, NOTHING, "get-compare-del", {"work": OVERTIME}),),
    checks=(LATE_RELEASE, AT_ONCE),
    judge=each_enters,
    solution="get-compare-del",
)
