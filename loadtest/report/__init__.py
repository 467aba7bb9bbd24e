"""A run's report in one HTML file: charts, verdict, and the command that repeats it.

    evidence = gather(RunFiles(folder))
    write("report.html", Story(title="…", repeat="…"), verdict, evidence)

The file loads nothing from elsewhere and works without scripts. It is made from files only, so any
run that `loadtest.checker` can judge has a report.
"""

from loadtest.report.gather import Evidence, gather
from loadtest.report.page import Story, write

__all__ = ["Evidence", "Story", "gather", "write"]
