"""Lesson 6: the flaw of lesson 5, in one command."""

from course.plan import AT_ONCE, LATE_RELEASE, NOTHING, OVERTIME, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(Flaw("overtime", Wrong.NOT_THEIRS, NOTHING, "get-compare-del", {"work": OVERTIME}),),
    checks=(LATE_RELEASE, AT_ONCE),
    solution="get-compare-del",
)
