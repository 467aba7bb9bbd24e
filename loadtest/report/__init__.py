"""A run as one HTML file: what happened, what was judged, and how to repeat it.

    evidence = gather(histories, during=snapshots, final="final.snapshot", faults="faults.jsonl")
    write("report.html", Story(title="…", repeat="…"), verdict, evidence)

The file needs nothing but a browser: no address outside, no script that must run. Reads files
only, so that any run that `loadtest.checker` can judge can be shown.
"""

from loadtest.report.gather import Evidence, gather
from loadtest.report.page import Story, write

__all__ = ["Evidence", "Story", "gather", "write"]
