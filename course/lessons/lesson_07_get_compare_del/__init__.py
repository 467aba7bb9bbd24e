"""Lesson 7: the client compares, and a pause comes before it deletes."""

from course.plan import LOCK_DUTIES, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

SLOW = {"timeout": 20.0, "work": {"B": 8.0}}

PLAN = Plan(
    flaws=(
        Flaw(
            "between", Wrong.NOT_THEIRS, Faults.LONG_PAUSE, "token-lua", SLOW,
            breaks="before command 2 of A's release: pause 15 s",
        ),
    ),
    checks=(Checks.LATE_RELEASE, Checks.PAUSED_RELEASE, *LOCK_DUTIES),
    solution="token-lua",
)  # fmt: skip
