"""Lesson 6: the flaw of lesson 5, in one command."""

from course.plan import OVERTIME, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw("overtime", Wrong.NOT_THEIRS, Faults.NOTHING, "get-compare-del", {"work": OVERTIME}),
    ),
    checks=(Checks.LATE_RELEASE, Checks.AT_ONCE),
    solution="get-compare-del",
)
