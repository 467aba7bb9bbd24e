"""The steps of a judged run, which `loadtest/conduct.py` puts in order.

This package knows a shop by HTTP only; `lab/proof` adds what needs processes and a database.
"""

from loadtest.steps.again import ask_again
from loadtest.steps.plan import RunPlan, open_sales
from loadtest.steps.schedule import Restocks, Schedule, opening_of

__all__ = [
    "Restocks",
    "RunPlan",
    "Schedule",
    "ask_again",
    "open_sales",
    "opening_of",
]
