"""The shop's correctness on Locust's page: a tab with live figures, a bar at the bottom, and a
verdict with its report after each run.

`page.py` attaches it; `run.py` follows a run of `loadtest.run`, and `rush_run.py` a rush;
`referee.py` knows all runs, and `pages.py` shows what they come to. This runs in the process that
has the page: the master or the only one. Judging and faults have processes of their own
(`loadtest/judge_process.py` and `loadtest/faults/process.py`), without gevent: under it, one that
reads its input is blocked.
"""
