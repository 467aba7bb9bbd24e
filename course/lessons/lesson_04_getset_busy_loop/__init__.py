"""Lesson 4: the flaws of lesson 3, and a key that goes away between GET and GETSET."""

from functools import partial

from course.clients import AT_ONCE, FAST_CLOCK, NOTHING, RACE, SWITCHES, each_enters, redis_clients
from course.lesson import Flaw, Plan
from course.lessons.lesson_04_getset_busy_loop.lock import BusyLoopLock
from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.simulation import KEY
from course.simulator.world import EPOCH

EXPIRED = ("SETNX", KEY, str(EPOCH / MICROSECONDS - 5))
SHORT = {"gaps": (0.0, 0.0), "work": {"B": 0.0}}

PLAN = Plan(
    partial(redis_clients, kind=BusyLoopLock),
    flaws=(
        Flaw(
            "missing-key", Wrong.ORPHANED, SWITCHES, "lua-setnx-expire",
            {**SHORT, "left_behind": EXPIRED}, SHORT,
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw(
            "fast-clock", Wrong.TWO_HOLDERS, NOTHING, "lua-setnx-expire", {"skew": {"B": 15.0}}
        ),
    ),
    checks=(FAST_CLOCK, RACE, AT_ONCE),
    judge=each_enters,
    solution="lua-setnx-expire",
)  # fmt: skip
