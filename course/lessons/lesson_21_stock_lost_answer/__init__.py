"""Lesson 21: a shop's stock, step 3: a connection is lost, and the buyer gets a true answer."""

from course.lessons.lesson_19_stock_oversold import clients
from course.lessons.lesson_20_stock_twice import CHECKS as STEP_2
from course.lessons.lesson_20_stock_twice import LAST_TWICE, QUIET, TWICE
from course.plan import OWN, Check, Faults, Flaw, Plan, Rush, nothing_wrong
from course.simulator.history import Wrong
from course.simulator.schedule import Act, FaultModel

ALONE = {"requests": {"A": ("Ann", "key-1")}}

LOST_OR_SWITCH = FaultModel(
    frozenset({Act.LOSE_REQUEST, Act.LOSE_REPLY, Act.SWITCH}), most_faults=1
)
LOST_TWICE = FaultModel(frozenset({Act.LOSE_REQUEST, Act.LOSE_REPLY}), most_faults=2)

PLAN = Plan(
    flaws=(
        Flaw(
            "lost-commit", Wrong.FALSE_ANSWER, Faults.LOST, OWN, ALONE,
            breaks="before command 3 of A's run: lose reply",
        ),
    ),
    checks=(
        *STEP_2,
        Check(ALONE, LOST_TWICE, tuple(Wrong)),
        Check({}, LOST_OR_SWITCH, tuple(Wrong)),
        Check(TWICE, LOST_OR_SWITCH, tuple(Wrong)),
        Check(LAST_TWICE, LOST_OR_SWITCH, tuple(Wrong)),
    ),
    clients=clients,
    judge=nothing_wrong,
    quiet=(*QUIET, ALONE),
    methods=("buy",),
    rush=Rush(twice=True, loses=True),
)  # fmt: skip
