"""Lesson 4: the flaws of lesson 3, and a key that goes away between GET and GETSET."""

from course.plan import AT_ONCE, EXPIRED, FAST_CLOCK, NOTHING, RACE, SWITCHES, Flaw, Plan
from course.simulator.history import Wrong

SHORT = {"gaps": (0.0, 0.0), "work": {"B": 0.0}}

PLAN = Plan(
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
    solution="lua-setnx-expire",
)  # fmt: skip
