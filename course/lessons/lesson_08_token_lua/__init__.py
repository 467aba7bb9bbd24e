"""Lesson 8: the work outlasts the lease, and waiters poll."""

from course.plan import (
    AT_ONCE,
    NOTHING,
    OVERTIME,
    OVERTIME_ALONE,
    PRODUCTION,
    SURVIVES_A_CRASH,
    Flaw,
    Plan,
)
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw("overtime", Wrong.TWO_HOLDERS, NOTHING, "watchdog", {"work": OVERTIME}),
        Flaw(
            "polling", Wrong.ORDER, NOTHING, PRODUCTION,
            {"names": "ABC", "work": {"A": 1.5}, "gaps": (0.0, 0.1, 0.6)},
            fair=True,
        ),
    ),
    checks=(OVERTIME_ALONE, SURVIVES_A_CRASH, AT_ONCE),
    solution="watchdog",
)  # fmt: skip
