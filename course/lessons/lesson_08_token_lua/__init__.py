"""Lesson 8: the work outlasts the lease, and waiters poll."""

from course.plan import LOCK_DUTIES, OVERTIME, PRODUCTION, Checks, Faults, Flaw, Plan
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
    checks=(
        Checks.OVERTIME_ALONE, Checks.PAUSED_RELEASE, *LOCK_DUTIES, Checks.RENEWS_ITS_OWN,
    ),
    solution="watchdog",
)  # fmt: skip
