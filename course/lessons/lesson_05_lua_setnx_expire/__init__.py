"""Lesson 5: the work outlasts the expiry."""

from course.plan import LOCK_DUTIES, OVERTIME, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw("overtime", Wrong.NOT_THEIRS, Faults.NOTHING, "get-compare-del", {"work": OVERTIME}),
    ),
    checks=(Checks.LATE_RELEASE, *LOCK_DUTIES),
    solution="get-compare-del",
)
