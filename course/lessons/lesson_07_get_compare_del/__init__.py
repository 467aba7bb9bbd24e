"""Lesson 7: the client compares, and a pause comes before it deletes."""

from course.plan import Check, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

SLOW = {"timeout": 20.0, "work": {"B": 8.0}}

PLAN = Plan(
    flaws=(
        Flaw(
            "between", Wrong.NOT_THEIRS, Faults.LONG_PAUSE, "token-lua", SLOW,
            breaks="before command 2 of A's release: pause 15 s",
        ),
    ),
    checks=(Check(SLOW, Faults.LONG_PAUSE, (Wrong.NOT_THEIRS,)), Checks.AT_ONCE),
    solution="token-lua",
)  # fmt: skip
