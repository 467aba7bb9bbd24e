"""Lesson 3: every client trusts its own clock, and the value has no owner."""

from functools import partial

from course.clients import (
    AT_ONCE,
    FAST_CLOCK,
    LATE_RELEASE,
    NOTHING,
    OVERTIME,
    RACE,
    SWITCHES,
    each_enters,
    redis_clients,
)
from course.lesson import Flaw, Plan
from course.lessons.lesson_03_setnx_getset.lock import GetsetLock
from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.simulation import KEY
from course.simulator.world import EPOCH

EXPIRED = ("SETNX", KEY, str(EPOCH / MICROSECONDS - 5))

PLAN = Plan(
    partial(redis_clients, kind=GetsetLock),
    flaws=(
        Flaw(
            "fast-clock", Wrong.TWO_HOLDERS, NOTHING, "lua-setnx-expire", {"skew": {"B": 15.0}}
        ),
        Flaw(
            "loser-moves", Wrong.MOVED, SWITCHES, "lua-setnx-expire",
            {"gaps": (0.0, 0.0), "left_behind": EXPIRED}, {"gaps": (0.0, 0.0)},
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw("no-owner", Wrong.NOT_THEIRS, NOTHING, "get-compare-del", {"work": OVERTIME}),
    ),
    checks=(FAST_CLOCK, RACE, LATE_RELEASE, AT_ONCE),
    judge=each_enters,
    solution="token-lua",
)  # fmt: skip
