"""Lesson 4: the flaws of lesson 3, and a key that goes away between GET and GETSET."""

from course.plan import EXPIRED, FAST_B, LOCK_DUTIES, TOGETHER, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

SHORT = {**TOGETHER, "work": {"B": 0.0}}

PLAN = Plan(
    flaws=(
        Flaw(
            "missing-key", Wrong.ORPHANED, Faults.SWITCHES, "lua-setnx-expire",
            {**SHORT, "left_behind": EXPIRED}, SHORT,
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw("fast-clock", Wrong.TWO_HOLDERS, Faults.NOTHING, "lua-setnx-expire", FAST_B),
    ),
    checks=(Checks.FAST_CLOCK, Checks.RACE, *LOCK_DUTIES),
    solution="lua-setnx-expire",
)  # fmt: skip
