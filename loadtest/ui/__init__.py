"""The shop's correctness on Locust's page: a tab with live figures, a bar at the bottom, and a
verdict with its report after each run.

`page.py` attaches it; `run.py` conducts a run by the steps of `loadtest.steps`; `faults.py`
injects faults; `tab.py` and `pages.py` show the results. This runs in the process that has the
page: the master or the only one. `judge.py` and `breaker.py` run as separate processes, so this
module imports nothing: Locust brings gevent, under which a process that reads its input is blocked.
"""
