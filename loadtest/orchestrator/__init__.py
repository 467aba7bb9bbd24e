"""The steps of a judged run, shared by `manage.py prove` and Locust's page.

plan, load, faults, drain, judge, report: `run.py` holds their order, the other modules one step
each. This package knows a shop by HTTP only; `lab/proof` adds what needs processes and a database.
"""

from loadtest.orchestrator.again import ask_again
from loadtest.orchestrator.drain import Books, drain
from loadtest.orchestrator.files import RunFiles
from loadtest.orchestrator.judge import Judged, judge_run
from loadtest.orchestrator.plan import RunPlan
from loadtest.orchestrator.report import write_report
from loadtest.orchestrator.restock import Restocks, refills_of
from loadtest.orchestrator.run import Orchestrator
from loadtest.orchestrator.schedule import Schedule, opening_of, write_terms

__all__ = [
    "Books",
    "Judged",
    "Orchestrator",
    "Restocks",
    "RunFiles",
    "RunPlan",
    "Schedule",
    "ask_again",
    "drain",
    "judge_run",
    "opening_of",
    "refills_of",
    "write_report",
    "write_terms",
]
