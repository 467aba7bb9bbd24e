"""Benchmark of the Redis lock against other Python libraries: speed, fairness and waits.

`manage.py bench_locks` runs it; `contenders` has the locks, `measure` the processes that use them,
`report` how the result is shown.
"""
