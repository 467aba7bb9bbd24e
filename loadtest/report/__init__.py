"""A verdict as `verdict.json` and as one HTML page: charts, properties, and how to check them.

    files = RunFiles(folder)
    evidence = gather(files)
    told = document(Story(title="…", repeat="…"), verdict, evidence, files)
    write("report.html", told, evidence)

The page loads nothing from elsewhere and works without scripts. It is made from files only, so any
run that `loadtest.checker` can judge has one.
"""

from loadtest.report.document import Story, document, lines, why_not
from loadtest.report.gather import Evidence, gather
from loadtest.report.page import write

__all__ = ["Evidence", "Story", "document", "gather", "lines", "why_not", "write"]
