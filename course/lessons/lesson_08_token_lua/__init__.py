"""Lesson 8: the work outlasts the lease, and waiters poll."""

from functools import partial

from course.clients import (
    AT_ONCE,
    NOTHING,
    OVERTIME,
    OVERTIME_ALONE,
    SURVIVES_A_CRASH,
    each_enters,
    redis_clients,
)
from course.lesson import PRODUCTION, Flaw, Plan
from course.lessons.lesson_08_token_lua.lock import TokenLuaLock
from course.simulator.history import Wrong

PLAN = Plan(
    partial(redis_clients, kind=TokenLuaLock),
    flaws=(
        Flaw("overtime", Wrong.TWO_HOLDERS, NOTHING, "watchdog", {"work": OVERTIME}),
        Flaw(
            "polling", Wrong.ORDER, NOTHING, PRODUCTION,
            {"names": "ABC", "work": {"A": 1.5}, "gaps": (0.0, 0.1, 0.6)},
            fair=True,
        ),
    ),
    checks=(OVERTIME_ALONE, SURVIVES_A_CRASH, AT_ONCE),
    judge=each_enters,
    solution="watchdog",
)  # fmt: skip
