"""Locust's page, made to say whether the shop was right: a tab with live figures, a bar below the
page, and after each run a verdict with its report.

`referee.py` follows a run and has it judged; `trouble.py` breaks the shop meanwhile; `tab.py` and
`pages.py` show what is known. All of it lives in the process that has the page: the master, or the
only one. `judge.py` and `breaker.py` are processes of their own, so nothing is imported here: with
Locust would come gevent, under which a process that waits for its input does nothing else.
"""
