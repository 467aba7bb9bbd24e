"""`python -m loadtest.checker HISTORY… --snapshot FINAL`: exit 0 pass, 1 fail, 2 unknown."""

from __future__ import annotations

import argparse
import json
import sys

from loadtest.checker import (
    FAIL,
    PASS,
    PROPERTIES,
    FaultLogError,
    HistoryError,
    SnapshotError,
    Verdict,
    judge,
)

EXIT_CODES = {PASS: 0, FAIL: 1}
NOT_JUDGED = 2

UNREADABLE = (HistoryError, SnapshotError, FaultLogError, OSError, ValueError)
"""What `judged` raises if a file cannot be read, or a property is unknown."""


def arguments_of(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return the command line's parser: which files to judge, and by which properties."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("histories", nargs="+", help="history files of one run")
    parser.add_argument("--snapshot", help="the final snapshot")
    parser.add_argument("--during", nargs="*", default=[], help="snapshots taken during the run")
    parser.add_argument("--ledger", help="the payment provider's ledger")
    parser.add_argument("--deliveries", help="what the mail server took")
    parser.add_argument("--terms", help="how the sales' terms changed")
    parser.add_argument("--faults", help="the log of injected faults")
    parser.add_argument("--properties", nargs="*", default=list(PROPERTIES), help="those to judge")
    return parser


def judged(options: argparse.Namespace) -> Verdict:
    """Judge the files named on the command line. Raises one of `UNREADABLE`."""
    return judge(
        options.histories,
        options.snapshot,
        during=options.during,
        ledger=options.ledger,
        deliveries=options.deliveries,
        terms=options.terms,
        faults=options.faults,
        properties=options.properties,
    )


def main(arguments: list[str] | None = None) -> int:
    """Judge the files named on the command line and print the findings."""
    parser = arguments_of("loadtest.checker", __doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        verdict = judged(options)
    except UNREADABLE as error:
        print(f"cannot be judged: {error}", file=sys.stderr)
        return NOT_JUDGED
    if options.json:
        print(json.dumps(verdict.to_json(), indent=2))
    else:
        for finding in verdict.properties:
            print(f"{finding.id:4} {finding.name:22} {finding.verdict:8} {finding.detail}")
        print(verdict.verdict)
    return EXIT_CODES.get(verdict.verdict, NOT_JUDGED)


if __name__ == "__main__":
    sys.exit(main())
