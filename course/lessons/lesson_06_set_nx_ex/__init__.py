"""Lesson 6: the flaw of lesson 5, in one command."""

from course.plan import LOCK_DUTIES, OVERTIME, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw("overtime", Wrong.NOT_THEIRS, Faults.NOTHING, "get-compare-del", {"work": OVERTIME}),
    ),
    checks=(Checks.LATE_RELEASE, *LOCK_DUTIES),
    solution="get-compare-del",
)
