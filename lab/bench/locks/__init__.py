"""How fast, how fair and how patient the Redis lock is, beside what else one could install.

``python -m lab.bench.locks`` measures; `contenders` has the locks, `measure` the processes that use
them, `report` the table, the chart and the page.
"""
