"""Lesson 1: the holder dies between its two commands."""

from course.plan import LOCK_DUTIES, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw(
            "crash", Wrong.NOBODY_ENTERS, Faults.CRASH, "setnx-ttl-repair",
            {"timeout": 15.0, "visitor": True},
            breaks="before command 2 of A's acquire: crash",
        ),
    ),
    checks=LOCK_DUTIES,
    solution="set-nx-ex",
)  # fmt: skip
