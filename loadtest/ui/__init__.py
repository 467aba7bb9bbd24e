"""Locust's page, made to say whether the shop was right: a tab with live figures, a bar below the
page, and after each run a verdict with its report.

`referee.py` follows a run and has it judged; `tab.py` and `pages.py` show what it knows. All of it
lives in the process that has the page: the master, or the only one.
"""

from loadtest.ui.pages import install
from loadtest.ui.referee import Referee

__all__ = ["Referee", "install"]
