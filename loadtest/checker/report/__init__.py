"""A verdict as `verdict.json` and as one HTML page: charts, properties, and how to check them.

    files = RunFiles(folder)
    evidence = gather(files)
    verdict_document = document(Description(title="…", repeat="…"), verdict, evidence, files)
    write("report.html", verdict_document, evidence)

The page loads nothing from elsewhere; without scripts it lacks its charts only. It is made from
files only, so any run that `loadtest.checker` can judge has one.
"""

from loadtest.checker.report.document import Description, document, why_not
from loadtest.checker.report.gather import Evidence, gather, stock_so_far
from loadtest.checker.report.page import Words, render, result, write

__all__ = [
    "Description",
    "Evidence",
    "Words",
    "document",
    "gather",
    "render",
    "result",
    "stock_so_far",
    "why_not",
    "write",
]
