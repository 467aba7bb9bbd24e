"""Lesson 8: the work outlasts the lease, and waiters poll."""

from course.plan import OVERTIME, PRODUCTION, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw("overtime", Wrong.TWO_HOLDERS, Faults.NOTHING, "watchdog", {"work": OVERTIME}),
        Flaw(
            "polling", Wrong.ORDER, Faults.NOTHING, PRODUCTION,
            {"names": "ABC", "work": {"A": 1.5}, "gaps": (0.0, 0.1, 0.6)},
            fair=True,
        ),
    ),
    checks=(Checks.OVERTIME_ALONE, Checks.SURVIVES_A_CRASH, Checks.AT_ONCE),
    solution="watchdog",
)  # fmt: skip
