"""Lesson 20: a shop's stock, step 2: a request that comes twice is served once."""

from course.lessons.lesson_19_stock_oversold import CHECKS as STEP_1
from course.lessons.lesson_19_stock_oversold import PLAN as PLAN_1
from course.lessons.lesson_19_stock_oversold import clients
from course.plan import Check, Faults, Flaw, Plan, Rush, nothing_wrong
from course.simulator.history import Wrong

TWICE = {"stock": 2, "requests": {"A": ("Ann", "key-1"), "B": ("Ann", "key-1")}}
"""A double click, or a client that asks again because it got no answer."""

LAST_TWICE = {**TWICE, "stock": 1}
"""The second time the unit is gone: to the same buyer."""

AGAIN = {**LAST_TWICE, "at": {"B": 5.0}}
TWO_ORDERS = {"stock": 2, "requests": {"A": ("Ann", "key-1"), "B": ("Ann", "key-2")}}

CHECKS = (
    *STEP_1,
    Check(TWICE, Faults.SWITCHES, tuple(Wrong), most=3),
    Check(LAST_TWICE, Faults.SWITCHES, tuple(Wrong), most=3),
    Check(TWICE, Faults.CRASH_OR_SWITCH, tuple(Wrong)),
)
QUIET = (*PLAN_1.quiet, TWICE, LAST_TWICE, AGAIN, TWO_ORDERS)

PLAN = Plan(
    flaws=(Flaw("double-click", Wrong.DOUBLED, Faults.SWITCHES, "stock-lost-answer", TWICE),),
    checks=CHECKS,
    clients=clients,
    judge=nothing_wrong,
    solution="stock-lost-answer",
    quiet=QUIET,
    methods=("buy",),
    rush=Rush(twice=True),
)
