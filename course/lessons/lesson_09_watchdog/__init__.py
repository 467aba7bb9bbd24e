"""Lesson 9: a paused holder, a fail-over, a lost message."""

from course.plan import LOCK_DUTIES, PRODUCTION, Check, Checks, Faults, Flaw, Plan
from course.simulator.history import Wrong
from course.simulator.schedule import Act, FaultModel

FAIL_OVER = FaultModel(frozenset({Act.FAIL_OVER}), targets=("redis",), most_faults=1)
LOST_MESSAGE = FaultModel(frozenset({Act.LOSE_MESSAGE}), victims=("A",), most_faults=1)

PLAN = Plan(
    flaws=(
        Flaw(
            "pause", Wrong.STALE_WRITE, Faults.LONG_PAUSE, PRODUCTION, {"writes": True},
            breaks="before command 1 of A's work: pause 15 s",
        ),
        Flaw(
            "fail-over", Wrong.TWO_HOLDERS, FAIL_OVER, "redlock",
            {"work": {"A": 5.0}, "gaps": (0.0, 1.0), "replicated": True},
            {"work": {"A": 5.0}, "gaps": (0.0, 1.0), "writes": False},
            breaks="before command 1 of B's acquire: fail over redis",
        ),
        Flaw(
            "lost-message", Wrong.ASLEEP, LOST_MESSAGE, PRODUCTION, max_idle=2.0,
            breaks="before command 1 of A's release: lose message",
        ),
    ),
    checks=(
        Checks.OVERTIME_ALONE,
        Check({"writes": True}, Faults.LONG_PAUSE, (Wrong.STALE_WRITE,)),
        Checks.PAUSED_RELEASE,
        *LOCK_DUTIES,
        Checks.RENEWS_ITS_OWN,
    ),
    quiet=({"writes": True}, {"writes": True, "skew": {"A": 15.0}}),
)  # fmt: skip
