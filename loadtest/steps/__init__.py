"""What a run of our shop plans, changes in its sales, and asks again; see `loadtest/sales.py`."""

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
