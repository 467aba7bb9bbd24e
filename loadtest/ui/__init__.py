"""The shop's correctness on Locust's page: a tab with live figures, a bar at the bottom, and a
verdict with its report after each run.

`page.py` attaches it; `run.py` conducts a run by the steps of `loadtest.steps`; `faults.py`
injects faults; `pages.py` shows the results. This runs in the process that has the page: the
master or the only one. `judge.py` and `faults.py` also run as separate processes, so this module
imports nothing: Locust brings gevent, under which a process that reads its input is blocked.
"""
