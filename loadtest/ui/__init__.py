"""The correctness of the shop on Locust's page: a tab with live figures, a bar at the bottom, and a
verdict with its report after each run.

`page.py` attaches it; `run.py` conducts a run by the steps of `loadtest.orchestrator`; `faults.py`
breaks the shop meanwhile; `tab.py` and `pages.py` show what is known. This runs in the process that
has the page: the master, or the only one. `judge.py` and `breaker.py` are processes of their own,
so nothing is imported here: Locust brings gevent, under which a process that waits for its input
does nothing else.
"""
