"""Lesson 2: two waiters repair one key, and repair the key of a holder that lives."""

from course.plan import EXPIRED, LOCK_DUTIES, ONE_ENTERS, TOGETHER, TTL, Check, Faults, Flaw, Plan
from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.simulation import KEY
from course.simulator.world import EPOCH

DEAD_KEY = ("SETNX", KEY, "1")

PLAN = Plan(
    flaws=(
        Flaw(
            "two-repairs", Wrong.TWO_HOLDERS, Faults.SWITCHES, "setnx-getset",
            {**TOGETHER, "left_behind": DEAD_KEY},
            {**TOGETHER, "left_behind": EXPIRED},
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw(
            "hasty-repair", Wrong.TWO_HOLDERS, Faults.SWITCHES, "lua-setnx-expire", TOGETHER,
            breaks="before command 2 of A's acquire: switch B",
        ),
        Flaw(
            "point-in-time", Wrong.NOBODY_ENTERS, Faults.CRASH, "lua-setnx-expire",
            {"names": "A", "settings": {"ttl": EPOCH // MICROSECONDS + TTL}, "visitor": True},
            {"names": "A", "visitor": True},
            breaks="before command 1 of A's release: crash",
        ),
    ),
    checks=(
        Check({**TOGETHER, "left_behind": DEAD_KEY}, Faults.SWITCHES, ONE_ENTERS),
        *LOCK_DUTIES,
    ),
    quiet=({}, {"left_behind": DEAD_KEY}),
)  # fmt: skip
