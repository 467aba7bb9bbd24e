"""`python -m loadtest.report HISTORY… --snapshot FINAL --output report.html`: judge and report.

Exit codes as in `loadtest.checker`: 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import argparse
import sys

from loadtest.checker import (
    FAIL,
    NAMES,
    PASS,
    FaultLogError,
    HistoryError,
    SnapshotError,
    judge,
)
from loadtest.report import Story, gather, write


def main(arguments: list[str] | None = None) -> int:
    """Judge the files named on the command line and write the report."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.report", description=__doc__)
    parser.add_argument("histories", nargs="+", help="history files of one run")
    parser.add_argument("--snapshot", help="the final snapshot")
    parser.add_argument("--during", nargs="*", default=[], help="snapshots taken during the run")
    parser.add_argument("--ledger", help="the payment provider's ledger")
    parser.add_argument("--faults", help="the log of injected faults")
    parser.add_argument("--properties", nargs="*", default=list(NAMES), help="properties to judge")
    parser.add_argument("--title", default="A run", help="title of the report")
    parser.add_argument("--output", default="report.html", help="the file to write")
    options = parser.parse_args(arguments)
    try:
        verdict = judge(
            options.histories,
            options.snapshot,
            during=options.during,
            ledger=options.ledger,
            faults=options.faults,
            properties=options.properties,
        )
        evidence = gather(
            options.histories, during=options.during, final=options.snapshot, faults=options.faults
        )
        write(options.output, Story(options.title), verdict, evidence)
    except (HistoryError, SnapshotError, FaultLogError, OSError, ValueError) as error:
        print(f"cannot make the report: {error}", file=sys.stderr)
        return 2
    print(f"{verdict.verdict}: {options.output}")
    return {PASS: 0, FAIL: 1}.get(verdict.verdict, 2)


if __name__ == "__main__":
    sys.exit(main())
