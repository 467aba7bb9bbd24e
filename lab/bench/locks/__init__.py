"""Benchmark of the Redis lock against other Python libraries: speed, fairness and waits.

``python -m lab.bench.locks`` runs it; `contenders` has the locks, `measure` the processes that use
them, `report` the table, the chart and the page.
"""
