"""Lesson 3: every client trusts its own clock, and the value has no owner."""

from course.plan import EXPIRED, FAST_B, LOCK_DUTIES, OVERTIME, TOGETHER, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw("fast-clock", Wrong.TWO_HOLDERS, Faults.NOTHING, "lua-setnx-expire", FAST_B),
        Flaw(
            "loser-moves", Wrong.MOVED, Faults.SWITCHES, "lua-setnx-expire",
            {**TOGETHER, "left_behind": EXPIRED}, TOGETHER,
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw("no-owner", Wrong.NOT_THEIRS, Faults.NOTHING, "get-compare-del", {"work": OVERTIME}),
    ),
    checks=(Checks.FAST_CLOCK, Checks.RACE, Checks.LATE_RELEASE, *LOCK_DUTIES),
    solution="token-lua",
)  # fmt: skip
